"""Say what a session needs of an API: fragments of messages, and bodies made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from loadtest.body import Body
from loadtest.messages import Message, ToolSet


def between_commas(fragments: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the fragments as members of a JSON list."""
    for index, fragment in enumerate(fragments):
        if index:
            yield b","
        yield fragment


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

    def fragment(self, message: Message) -> bytes:
        """Encode a message, once for all requests that carry it."""
        ...

    def body(self, messages: Sequence[Message], fragments: Sequence[bytes], wish: Wish) -> Body:
        """Make the body of a request; there is a fragment for each message."""
        ...
