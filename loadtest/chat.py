"""Speak the chat API: encode a request, send it, read its stream to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import ConfigError
from loadtest.fetch import Request, fetch
from loadtest.prompts import Message
from loadtest.recorder import Clock
from loadtest.settings import LoadSettings
from loadtest.sse import Expected, Reply
from loadtest.transport import check_ca_file
from loadtest.wire import Connection

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
        url = self.settings.targets[region]
        return Connection(url, self.headers, self.settings.client, self.clock)

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
        options = self.settings.client
        expected = Expected(
            validate_json=options.validate_json, max_event_bytes=options.max_event_bytes
        )
        request = Request(path=CHAT_PATH, body=body, headers=headers or {}, expected=expected)
        return fetch(connection, request, self.clock)


def make_chat(settings: LoadSettings, clock: Clock) -> Chat:
    """Read the API key and the authorities, if any. Raises ConfigError that never shows a key."""
    check_ca_file(settings.client)
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
