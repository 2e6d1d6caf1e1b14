"""Read the chunks of an answer of Anthropic's Messages API.

The usage at the start of a stream is an estimate (Dynamo says 5 for a prompt of 118 tokens), so
only the one at its end counts. Its input tokens are those that no cache had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadtest.client.deltas import Delta

_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}


def messages_delta(chunk: Mapping[str, Any]) -> Delta:
    """Read one event; a field of the wrong type says nothing."""
    kind, index = chunk.get("type"), chunk.get("index", 0)
    if kind == "content_block_start":
        return _block(_table(chunk, "content_block"), index)
    if kind == "content_block_delta":
        return _piece(_table(chunk, "delta"), index)
    if kind == "message_delta":
        reason = _table(chunk, "delta").get("stop_reason")
        finish = _FINISH.get(str(reason), "tool_calls" if reason == "tool_use" else str(reason))
        return Delta(finish_reason=finish if reason else None, usage=_usage(_table(chunk, "usage")))
    return Delta(done=kind == "message_stop")


def _block(block: Mapping[str, Any], index: int) -> Delta:
    if block.get("type") != "tool_use":
        return Delta()
    function = {"name": block.get("name"), "arguments": ""}
    return Delta(tool_calls=[{"index": index, "id": block.get("id"), "function": function}])


def _piece(delta: Mapping[str, Any], index: int) -> Delta:
    kind = delta.get("type")
    if kind == "text_delta":
        return Delta(content=_text(delta.get("text")))
    if kind == "thinking_delta":
        return Delta(reasoning=_text(delta.get("thinking")))
    arguments = _text(delta.get("partial_json"))
    if kind == "input_json_delta" and arguments:
        return Delta(tool_calls=[{"index": index, "function": {"arguments": arguments}}])
    return Delta()


def _usage(usage: Mapping[str, Any]) -> dict[str, Any] | None:
    """Translate to the usage of chat completions; what is absent stays absent."""
    fresh, cached = usage.get("input_tokens"), usage.get("cache_read_input_tokens")
    if not isinstance(fresh, int):
        return None
    parts = (cached, usage.get("cache_creation_input_tokens"))
    prompt = fresh + sum(part for part in parts if isinstance(part, int))
    output = usage.get("output_tokens")
    known: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output}
    if isinstance(output, int):
        known["total_tokens"] = prompt + output
    if isinstance(cached, int):
        known["prompt_tokens_details"] = {"cached_tokens": cached}
    return known


def _table(chunk: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = chunk.get(name)
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
