"""Claims about reading Anthropic's stream."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from loadtest.client.messages_delta import messages_delta
from loadtest.client.sse import Expected, Reply

USAGE = {"input_tokens": 46, "output_tokens": 3, "cache_creation_input_tokens": 0}


def read(*events: dict[str, Any]) -> Reply:
    reply = Reply(0.0, expected=Expected(keep_text=True), dialect=messages_delta)
    for event in events:
        data = orjson.dumps(event).decode()
        reply.read(f"event: {event['type']}\ndata: {data}\n\n".encode(), 1.0)
    reply.close()
    return reply


def delta(index: int, **content: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": content}


def end(**usage: int) -> list[dict[str, Any]]:
    last = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    return [{**last, "usage": {**USAGE, **usage}}, {"type": "message_stop"}]


def test_an_answer_is_put_together() -> None:
    """Thinking, text and a call, as the next request sends them back."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "read"}
    reply = read(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
        delta(0, type="thinking_delta", thinking="hm"),
        delta(0, type="signature_delta", signature="x"),
        delta(1, type="text_delta", text="well"),
        {"type": "content_block_start", "index": 2, "content_block": call},
        delta(2, type="input_json_delta", partial_json='{"input":'),
        delta(2, type="input_json_delta", partial_json='"a"}'),
        *end(),
    )
    assert (reply.reasoning, reply.content, reply.error) == ("hm", "well", None)
    assert reply.tool_calls[0]["function"] == {"name": "read", "arguments": '{"input":"a"}'}
    assert (reply.tool_calls[0]["id"], reply.finish_reason) == ("toolu_1", "tool_calls")


def test_input_tokens_are_those_that_no_cache_had() -> None:
    """The prompt is all three together; only then is it what chat completions count."""
    reply = read(delta(0, type="text_delta", text="a"), *end(cache_read_input_tokens=256))
    assert reply.usage is not None
    assert reply.usage["prompt_tokens"] == 302
    assert reply.usage["prompt_tokens_details"] == {"cached_tokens": 256}


def test_an_absent_cache_figure_is_not_zero() -> None:
    """The server did not report it."""
    reply = read(delta(0, type="text_delta", text="a"), *end())
    assert "prompt_tokens_details" not in (reply.usage or {})


def test_an_error_in_the_stream_is_one() -> None:
    """HTTP said 200 long before."""
    reply = read({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    assert reply.error == "in_stream_error"


def test_a_stream_without_its_end_is_truncated() -> None:
    """As with [DONE] of chat completions."""
    assert read(delta(0, type="text_delta", text="a")).error == "truncated"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": "x"},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": 3}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "message_delta", "usage": {"input_tokens": "many"}},
    ],
)
def test_what_has_no_form_says_nothing(event: dict[str, Any]) -> None:
    """Neither a token nor a usage, and no crash."""
    read_delta = messages_delta(event)
    assert not read_delta.has_token
    assert read_delta.usage is None
