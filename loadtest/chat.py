"""Speak the chat API: encode a request, send it, read its stream to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import ConfigError
from loadtest.prompts import Message
from loadtest.recorder import Clock
from loadtest.settings import LoadSettings
from loadtest.sse import Reply
from loadtest.taxonomy import classify_status, classify_wire
from loadtest.wire import Connection, Timeouts, WireError

CHAT_PATH = "/v1/chat/completions"
SESSION_HEADER = "X-Dynamo-Session-ID"
PARENT_HEADER = "X-Dynamo-Parent-Session-ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Hold what every request of a run has in common."""

    settings: LoadSettings
    headers: dict[str, str]
    clock: Clock

    def connect(self, region: str) -> Connection:
        """Make the connection of a session; it opens with the first request."""
        return Connection(self.settings.targets[region], self.headers, Timeouts())

    def body(
        self, messages: Sequence[Message], max_tokens: int, annotations: Sequence[str] = ()
    ) -> bytes:
        """Encode a request; orjson, since the history of a long session is megabytes.

        `worker_id` makes Dynamo name the decode worker in each chunk.
        """
        nvext: dict[str, Any] = {"extra_fields": ["worker_id"]}
        if annotations:
            nvext["annotations"] = list(annotations)
        return orjson.dumps(
            {
                "model": self.settings.model,
                "messages": [message.body() for message in messages],
                "max_tokens": max_tokens,
                "stream": True,
                "stream_options": {"include_usage": True},
                "nvext": nvext,
            }
        )

    def fetch(
        self, connection: Connection, body: bytes, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send one request and read its stream; whatever fails is in the reply."""
        reply = Reply(self.clock())
        try:
            exchange = connection.post(CHAT_PATH, body, headers or {})
            reply.status = exchange.status
            if exchange.status == 200:
                for chunk in exchange:
                    reply.read(chunk, self.clock())
                reply.close()
            else:
                refusal = b"".join(exchange)
                error = classify_status(exchange.status, refusal)
                reply.fail(error, refusal.decode("utf-8", "replace"))
        except WireError as error:
            reply.fail(classify_wire(error.kind, reply.status, reply.chunks), error.detail)
        reply.ended_s = self.clock()
        return reply


def make_chat(settings: LoadSettings, clock: Clock) -> Chat:
    """Read the API key, if any. Raises ConfigError that never shows it."""
    headers: dict[str, str] = {}
    if settings.api_key_file is not None:
        headers["Authorization"] = f"Bearer {_read_key(settings.api_key_file)}"
    return Chat(settings=settings, headers=headers, clock=clock)


def _read_key(path: Path) -> str:
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _no_key(path) from error
    if not key.isprintable() or not key:  # a line end would start a header of its own
        raise _no_key(path)
    return key


def _no_key(path: Path) -> ConfigError:
    return ConfigError(
        f"{path}: cannot be read as a key. Give a file that holds the gateway's API key alone."
    )
