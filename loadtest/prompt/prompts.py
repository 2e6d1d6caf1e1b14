"""Render a conversation to the token ids that the server will see.

The chat template of the model puts tag tokens around every text. A `Frame` holds those tags as
learned from the server (`loadtest/prompt/calibrate.py`), so a prompt's length and its cache blocks
are known exactly before it is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fleet.errors import LoadError
from loadtest.prompt.images import Image
from loadtest.prompt.messages import Message, Role, ToolCall, ToolSet, declare_tool
from loadtest.prompt.words import TOKEN_BYTES, Text

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

DIGEST_BYTES = 8
"""Width of one packed chain hash: of 10 million blocks, two collide with a chance of 3e-6."""


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
        places: Places = {}
        for message in messages:
            places = places_after(message, places)
            yield from self.slots_of(message, places)

    def slots_of(self, message: Message, places: Places) -> Iterator[tuple[Slot, bytes]]:
        """Give the tokens of each text of one message and where it stands."""
        for slot, text, images in texts_of(message, places):
            yield slot, text.tokens + b"".join([self._image(image) for image in images])

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


Places = Mapping[str, Slot]
"""Tool and place of each call of an answer, by call id."""


def texts(messages: Iterable[Message]) -> Iterator[tuple[Slot, Text, tuple[Image, ...]]]:
    """Give the texts of a conversation in their order, where each stands, the images behind it."""
    places: Places = {}
    for message in messages:
        places = places_after(message, places)
        yield from texts_of(message, places)


def texts_of(message: Message, places: Places) -> Iterator[tuple[Slot, Text, tuple[Image, ...]]]:
    """Give the texts of one message; `places` are those of the answer it belongs to."""
    if message.role == "assistant":
        yield "reasoning", message.reasoning, ()
        yield "content", message.content, ()
        for call in () if message.is_live else message.tool_calls:
            yield f"call:{places[call.id]}", call.argument, ()
    elif message.role == "tool":
        place = _place(places, message)
        yield f"result:{place}" if place else "user", message.content, ()
    else:
        yield message.role, message.content, message.images


def places_after(message: Message, before: Places) -> Places:
    """Number the calls of an answer from 1, as the prompt does; call ids are not in the prompt.

    The tags of a model's own calls are not known; results of those are taken for questions.
    """
    if message.role != "assistant":
        return before
    if message.is_live:
        return {call.id: "" for call in message.tool_calls}
    calls = enumerate(message.tool_calls, start=1)
    return {call.id: f"{call.name}#{place}" for place, call in calls}


def _place(places: Places, message: Message) -> Slot:
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
    blocks: Sequence[Any]
    """Hashable, one for each block; equal only when all before them is equal too."""
    exact: bool = True
    """Whether the server's tokens are known one by one, not only counted or guessed."""


def make_prompt(tokens: bytes, block_size: int) -> Prompt:
    """Cut packed token ids into blocks; each hash covers its block and all before it."""
    chain = b"".join(hash_blocks(b"", tokens, block_size))
    return Prompt(token_count=len(tokens) // TOKEN_BYTES, blocks=view_blocks(chain))


def hash_blocks(previous: bytes, tokens: bytes, block_size: int) -> Iterator[bytes]:
    """Yield the chain hash of each full block after the one that has the hash `previous`."""
    width = block_size * TOKEN_BYTES
    for start in range(0, len(tokens) - width + 1, width):
        hashed = hashlib.blake2b(previous, digest_size=DIGEST_BYTES)
        hashed.update(tokens[start : start + width])
        previous = hashed.digest()
        yield previous


def view_blocks(chain: bytes) -> Sequence[int]:
    """Read packed chain hashes as numbers, without an object for each."""
    return memoryview(chain).cast("Q")
