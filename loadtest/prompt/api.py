"""Say what a session needs of an API: fragments of messages, and bodies made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from loadtest.client.deltas import Dialect
from loadtest.prompt.body import Body
from loadtest.prompt.messages import Message, ToolSet
from loadtest.prompt.words import Text


def between_commas(fragments: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the fragments as members of a JSON list."""
    for index, fragment in enumerate(fragments):
        if index:
            yield b","
        yield fragment


class Fragments:
    """Encode one message; its texts, which are JSON already, are copied once and into place.

    Encoding them as strings takes three times as long, and orjson's result holds up to twice its
    length: a session of 200,000 tokens took 2.6 MB that way and takes 1.8 MB.
    """

    def __init__(self) -> None:
        self._texts: list[Text] = []

    def quoted(self, text: Text) -> orjson.Fragment:
        """Hold the place of a text; no JSON has the byte 0 in it."""
        self._texts.append(text)
        return orjson.Fragment(b'"\0%d\0"' % (len(self._texts) - 1))

    def encode(self, document: Mapping[str, Any]) -> bytes:
        """Encode the document with the texts in their places."""
        pieces = orjson.dumps(document).split(b"\0")
        parts = pieces[:1]
        for number, after in zip(pieces[1::2], pieces[2::2], strict=True):
            parts += (*self._texts[int(number)].parts, after)
        return b"".join(parts)


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
