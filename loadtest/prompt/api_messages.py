"""Speak Anthropic's Messages API, as coding harnesses built for it do.

Dynamo 1.6.1 serves it with `--enable-anthropic-api`: the prompt is the same as that of the chat
completion with the same texts, but no worker is named and no token ids are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from fleet.errors import ConfigError
from loadtest.client.deltas import Dialect
from loadtest.client.messages_delta import messages_delta
from loadtest.prompt.api import Fragments, Wish, between_commas
from loadtest.prompt.body import Body
from loadtest.prompt.messages import Message, ToolSet
from loadtest.prompt.session_options import SessionOptions
from loadtest.prompt.words import Text


class MessagesApi:
    """Encode requests of the Messages API."""

    path = "/v1/messages"
    delta: Dialect = staticmethod(messages_delta)

    def __init__(self, model: str, options: SessionOptions) -> None:
        self._head = orjson.dumps({"model": model})[:-1]
        self._options = options

    def fragment(self, message: Message) -> bytes:
        """Encode a message; one with the role system becomes a block of the system prompt."""
        fragments = Fragments()
        return fragments.encode(_document(message, fragments.quoted))

    def body(self, messages: Sequence[Message], fragments: Sequence[bytes], wish: Wish) -> Body:
        """Make the body of a request; raises ConfigError for a system prompt in the middle."""
        system = [message.role for message in messages].count("system")
        if system > 1 or (system and messages[0].role != "system"):
            raise ConfigError(
                "session.dialect: the Messages API has one system prompt, before everything else. "
                "Use traffic with no other system message, or the dialect openai."
            )
        rest: dict[str, Any] = {"max_tokens": wish.max_tokens, "stream": True}
        if wish.tools is not None:
            rest["tools"] = _tools(wish.tools)
        if self._options.reasoning_effort is not None:
            rest["output_config"] = {"effort": self._options.reasoning_effort}
        pieces = [self._head]
        if system:
            pieces += [b',"system":[', *between_commas(fragments[:system]), b"]"]
        pieces += [b',"messages":[', *between_commas(fragments[system:])]
        return Body([*pieces, b"]," + orjson.dumps(rest)[1:]])


def _document(message: Message, show: Callable[[Text], Any]) -> dict[str, Any]:
    text = show(message.content)
    if message.role == "system":
        return {"type": "text", "text": text}
    if message.role == "assistant":
        return {"role": "assistant", "content": _answer(message, show)}
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.call_id, "content": text}
        return {"role": "user", "content": [result]}
    if message.images:
        return {"role": "user", "content": [{"type": "text", "text": text}, *_images(message)]}
    return {"role": "user", "content": text}


def _answer(message: Message, show: Callable[[Text], Any]) -> list[dict[str, Any]]:
    """Give an answer as blocks; the API refuses empty ones."""
    blocks: list[dict[str, Any]] = []
    if not message.reasoning.is_empty:
        # A server that signs its thinking checks it; ours is scripted, K3's servers do not sign.
        blocks.append({"type": "thinking", "thinking": show(message.reasoning), "signature": ""})
    if not message.content.is_empty or not message.tool_calls:
        blocks.append({"type": "text", "text": show(message.content)})
    for call in message.tool_calls:
        given = orjson.Fragment(call.arguments())
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    return blocks


def _images(message: Message) -> list[dict[str, Any]]:
    sources = [image.url.partition(";base64,") for image in message.images]
    return [
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": kind.removeprefix("data:"),
                "data": data,
            },
        }
        for kind, _, data in sources
    ]


def _tools(tools: ToolSet) -> list[dict[str, Any]]:
    functions = [tool["function"] for tool in tools.tools]
    return [
        {
            "name": function["name"],
            "description": function["description"],
            "input_schema": function["parameters"],
        }
        for function in functions
    ]
