"""Render a conversation to the token ids that the server will see.

The chat template of the model puts tag tokens around every text. A `Frame` holds those tags as
learned from the server (`loadtest/calibrate.py`), so a prompt's length and its cache blocks are
known exactly before it is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fleet.errors import LoadError
from loadtest.messages import Image, Message, Role, ToolCall, ToolSet, declare_tool
from loadtest.words import TOKEN_BYTES, Text

__all__ = [
    "Frame",
    "Image",
    "Message",
    "Prompt",
    "Role",
    "Slot",
    "ToolCall",
    "ToolSet",
    "declare_tool",
    "make_prompt",
]

Slot = str
"""Where a text stands: start, system, user, reasoning, content, end, and for tools `call` and
`result`, with the tool's name and the call's place behind a colon where these are in the prompt."""

_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Hold the tag tokens between two neighbouring texts of a prompt.

    `exact` is False when the server does not tell token ids: then the counts are right, but the
    place of the tags at a prompt's two ends is a guess, worth one cache block at most.
    """

    between: Mapping[tuple[Slot, Slot], bytes]
    exact: bool
    images: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """How many tokens the server makes of an image, by width and height in pixels."""

    def tokens(self, messages: Sequence[Message]) -> bytes:
        """Give the prompt as packed token ids, tags and generation prompt included."""
        parts: list[bytes] = []
        slots = [("start", b""), *self.slots(messages), ("end", b"")]
        for (before, _), (after, tokens) in pairwise(slots):
            parts.append(self.gap(before, after))
            parts.append(tokens)
        return b"".join(parts)

    def slots(self, messages: Sequence[Message]) -> Iterator[tuple[Slot, bytes]]:
        """Give the tokens of each text of a conversation and where it stands."""
        for slot, text, images in texts(messages):
            shown = b"".join([self._image(image) for image in images])
            yield slot, text.tokens + shown

    def gap(self, before: Slot, after: Slot) -> bytes:
        """Give the tags between two texts; raises LoadError for a pair that was never learned.

        What closes a call or a result does not depend on which tool it was.
        """
        tags = self.between.get((kind_of(before), after))
        if tags is None:
            raise LoadError(
                f"calibration: the tags between {before} and {after} were not learned from the "
                "server. Declare the tool in the step's ToolSet, or keep the order of messages."
            )
        return tags

    def _image(self, image: Image) -> bytes:
        """Stand in for an image: as many tokens as the server makes of it, of an id of its own."""
        count = self.images.get((image.width, image.height), image.tokens)
        name = f"{image.width}x{image.height}/{image.seed}".encode()
        return hashlib.blake2b(name, digest_size=TOKEN_BYTES).digest() * count


def kind_of(slot: Slot) -> Slot:
    """Give a slot without the tool's name and the call's place."""
    return slot.partition(":")[0]


def texts(messages: Iterable[Message]) -> Iterator[tuple[Slot, Text, tuple[Image, ...]]]:
    """Give the texts of a conversation in their order, where each stands, the images behind it."""
    places: dict[str, Slot] = {}
    for message in messages:
        if message.role == "assistant":
            yield "reasoning", message.reasoning, ()
            yield "content", message.content, ()
            places = _call_places(message)
            for call in message.tool_calls:
                yield f"call:{places[call.id]}", call.argument, ()
        elif message.role == "tool":
            yield f"result:{_place(places, message)}", message.content, ()
        else:
            yield message.role, message.content, message.images


def _call_places(message: Message) -> dict[str, Slot]:
    """Number the calls of an answer from 1, as the prompt does; call ids are not in the prompt."""
    calls = enumerate(message.tool_calls, start=1)
    return {call.id: f"{call.name}#{place}" for place, call in calls}


def _place(places: Mapping[str, Slot], message: Message) -> Slot:
    place = places.get(message.call_id)
    if place is None:
        raise LoadError(
            f"traffic: a tool result answers call {message.call_id!r}, which the answer before it "
            "does not make. Give results the ids of the calls just made, in their order."
        )
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Hold what the cache sees of a prompt: its length and the chain hash of each full block."""

    token_count: int
    blocks: Sequence[bytes]


def make_prompt(tokens: bytes, block_size: int) -> Prompt:
    """Cut packed token ids into blocks; each hash covers its block and all before it."""
    width = block_size * TOKEN_BYTES
    previous = b""
    blocks: list[bytes] = []
    for start in range(0, len(tokens) - width + 1, width):
        hashed = hashlib.blake2b(previous, digest_size=_DIGEST_BYTES)
        hashed.update(tokens[start : start + width])
        previous = hashed.digest()
        blocks.append(previous)
    return Prompt(token_count=len(tokens) // TOKEN_BYTES, blocks=tuple(blocks))
