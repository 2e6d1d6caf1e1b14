"""Speak chat completions, the API that K3 is served by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from loadtest.client.deltas import Dialect, openai_delta
from loadtest.prompt.api import Fragments, Wish, between_commas
from loadtest.prompt.body import Body
from loadtest.prompt.messages import Message
from loadtest.prompt.session_options import SessionOptions


class ChatApi:
    """Encode chat completions as Dynamo, vLLM and SGLang take them."""

    path = "/v1/chat/completions"
    delta: Dialect = staticmethod(openai_delta)

    def __init__(self, model: str, options: SessionOptions) -> None:
        self._head = orjson.dumps({"model": model})[:-1] + b',"messages":['
        self._options = options

    def fragment(self, message: Message) -> bytes:
        """Encode a message."""
        fragments = Fragments()
        return fragments.encode(message.body(fragments.quoted))

    def body(self, messages: Sequence[Message], fragments: Sequence[bytes], wish: Wish) -> Body:
        """Make the body of a request.

        `worker_id` makes Dynamo name the decode worker in each chunk.
        """
        nvext: dict[str, Any] = {"extra_fields": ["worker_id"]}
        if wish.annotations:
            nvext["annotations"] = list(wish.annotations)
        rest: dict[str, Any] = {
            self._options.limit_field: wish.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "nvext": nvext,
        }
        if wish.tools is not None:
            rest["tools"] = list(wish.tools.tools)
        if self._options.reasoning_effort is not None:
            rest["reasoning_effort"] = self._options.reasoning_effort
        tail = b"]," + orjson.dumps(rest)[1:]
        return Body([self._head, *between_commas(fragments), tail])
