"""Claims about what goes over the wire, for each API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from fleet.errors import ConfigError
from loadtest.prompt.api import Api, Wish
from loadtest.prompt.api_chat import ChatApi
from loadtest.prompt.api_messages import MessagesApi
from loadtest.prompt.body import Body, with_head
from loadtest.prompt.prompts import Image, Message, ToolCall, ToolSet
from loadtest.prompt.session_options import SessionOptions
from loadtest.prompt.words import Text, Vocabulary
from loadtest.traffic.sessions import Seeds

OPTIONS = SessionOptions()
CHAT = ChatApi("kimi-k3", OPTIONS)
MESSAGES = MessagesApi("kimi-k3", OPTIONS)


@pytest.fixture
def talk(vocabulary: Vocabulary) -> list[Message]:
    """Hold a conversation with everything in it."""
    rng = Seeds(seed=1, salt="").lengths()
    draw = vocabulary.draw
    call = ToolCall(id="c1", name="read", argument=draw(rng, 3))
    return [
        Message(role="system", content=draw(rng, 4)),
        Message(role="user", content=draw(rng, 2), images=(Image(width=9, height=9, seed=1),)),
        Message(role="assistant", reasoning=draw(rng, 2), content=draw(rng, 1), tool_calls=(call,)),
        Message(role="tool", call_id="c1", content=draw(rng, 5)),
    ]


def sent(api: Api, talk: list[Message], **wish: Any) -> dict[str, Any]:
    body = api.body(talk, [api.fragment(message) for message in talk], Wish(**wish))
    document: dict[str, Any] = json.loads(bytes(body))
    return document


def test_a_chat_completion_holds_the_messages_as_they_are(talk: list[Message]) -> None:
    """Fragments are only another way to write the same document."""
    assert sent(CHAT, talk, max_tokens=7)["messages"] == [message.body() for message in talk]


def test_the_longest_answer_has_its_present_name(talk: list[Message]) -> None:
    """K3's API knows max_completion_tokens; the old name stays for old servers."""
    old = ChatApi("kimi-k3", SessionOptions(limit_field="max_tokens"))
    assert sent(CHAT, talk, max_tokens=7)["max_completion_tokens"] == 7
    assert sent(old, talk, max_tokens=7)["max_tokens"] == 7


def test_tools_and_effort_are_declared(talk: list[Message], tools: ToolSet) -> None:
    """Both stand in the prompt, before everything else."""
    body = sent(
        ChatApi("kimi-k3", SessionOptions(reasoning_effort="low")), talk, max_tokens=1, tools=tools
    )
    assert (body["tools"], body["reasoning_effort"]) == (list(tools.tools), "low")


def test_what_is_not_wished_is_not_sent(talk: list[Message]) -> None:
    """Dynamo refuses fields that it does not know, and an empty list of tools is one to others."""
    assert {"tools", "reasoning_effort"}.isdisjoint(sent(CHAT, talk, max_tokens=1))


def test_quotes_and_line_ends_arrive_whole() -> None:
    """A recorded or live text may hold anything, also inside a call's arguments."""
    odd = Text('say "no"\n\\ é \U0001f600 \x01', b"\0" * 4)
    call = ToolCall(id="c", name="read", argument=odd)
    talk = [Message(role="assistant", content=odd, reasoning=odd, tool_calls=(call,))]
    chat = sent(CHAT, talk, max_tokens=1)["messages"][0]
    blocks = sent(MESSAGES, talk, max_tokens=1)["messages"][0]["content"]
    arguments = json.loads(chat["tool_calls"][0]["function"]["arguments"])
    assert {chat["content"], chat["reasoning_content"], arguments["input"]} == {odd.text}
    assert blocks[2]["input"] == {"input": odd.text}


def test_the_messages_api_takes_the_same_conversation(talk: list[Message], tools: ToolSet) -> None:
    """System apart, results from the user, thinking in blocks, schemas under another name."""
    body = sent(MESSAGES, talk, max_tokens=9, tools=tools)
    assert [block["text"] for block in body["system"]] == [talk[0].content.text]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    kinds = [block["type"] for message in body["messages"] for block in message["content"]]
    assert kinds == ["text", "image", "thinking", "text", "tool_use", "tool_result"]
    assert body["tools"][0]["input_schema"] == tools.tools[0]["function"]["parameters"]
    assert (body["max_tokens"], body["stream"]) == (9, True)


def test_the_messages_api_refuses_empty_blocks(talk: list[Message]) -> None:
    """An answer that only calls a tool has no text."""
    call = Message(role="assistant", tool_calls=talk[2].tool_calls)
    assert [b["type"] for b in json.loads(MESSAGES.fragment(call))["content"]] == ["tool_use"]


def test_the_messages_api_has_one_system_prompt(talk: list[Message]) -> None:
    """What cannot be sent is told, not sent as something else."""
    with pytest.raises(ConfigError, match="or the dialect openai"):
        sent(MESSAGES, [*talk, talk[0]], max_tokens=1)


def test_a_sub_agent_names_its_parent() -> None:
    """Routers keep a session where its cache is, and may place a child beside its parent."""
    options = SessionOptions(session_headers=("X-A", "X-B"), parent_headers=("X-P",))
    assert options.headers("s", None) == {"X-A": "s", "X-B": "s"}
    assert options.headers("s.1", "s") == {"X-A": "s.1", "X-B": "s.1", "X-P": "s"}


@pytest.mark.parametrize("name", ["X A", "X:A", "X\r\nY", ""])
def test_a_header_name_must_be_one(name: str) -> None:
    """A line end in it would write headers of its own."""
    with pytest.raises(ValidationError):
        SessionOptions(session_headers=(name,))


def test_a_long_body_is_sent_in_segments() -> None:
    """One segment of megabytes would hold up all other sessions."""
    pieces = [b"a" * 10, b"b" * 1_000_000, *([b"c" * 1000] * 300)]
    segments = list(Body(pieces))
    assert b"".join(segments) == b"".join(pieces)
    assert max(map(len, segments)) <= 200_000


def test_a_body_can_be_sent_again() -> None:
    """A kept-alive connection may turn out closed."""
    body = with_head(b"head", b"body")
    assert list(body) == list(body) == [b"headbody"]
    assert (len(body), bytes(body)) == (8, b"headbody")
