"""Say what a session needs of an API: fragments of messages, and bodies made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from loadtest.body import Body
from loadtest.deltas import Dialect
from loadtest.messages import Message, ToolSet


def between_commas(fragments: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the fragments as members of a JSON list."""
    for index, fragment in enumerate(fragments):
        if index:
            yield b","
        yield fragment


def encode(document: Mapping[str, Any]) -> bytes:
    """Encode a fragment that will be kept: as long as it is, orjson's own bytes hold up to twice.

    Measured: 2.6 MB for a session of 200,000 tokens, 1.8 MB with the copy.
    """
    return bytes(memoryview(orjson.dumps(document)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Hold what one request asks besides its messages."""

    max_tokens: int
    tools: ToolSet | None = None
    annotations: Sequence[str] = ()
    """Facts about itself that the server shall add to the stream."""


class Api(Protocol):
    """Speak one API."""

    @property
    def path(self) -> str:
        """Name the path that requests go to."""
        ...

    @property
    def delta(self) -> Dialect:
        """Give what reads the chunks of an answer."""
        ...

    def fragment(self, message: Message) -> bytes:
        """Encode a message, once for all requests that carry it."""
        ...

    def body(self, messages: Sequence[Message], fragments: Sequence[bytes], wish: Wish) -> Body:
        """Make the body of a request; there is a fragment for each message."""
        ...
