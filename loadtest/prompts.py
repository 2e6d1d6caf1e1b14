"""Render a conversation to the token ids that the server will see.

The chat template of the model puts tag tokens around every message. A `Frame` holds those tags as
learned from the server (`loadtest/calibrate.py`), so a prompt's length and its cache blocks are
known exactly before it is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from loadtest.words import EMPTY, TOKEN_BYTES, Text

Role = Literal["system", "user", "assistant"]
Slot = Literal["start", "system", "user", "reasoning", "content", "end"]

_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Hold one message; an assistant's carries its reasoning, else the prefix breaks each turn."""

    role: Role
    content: Text
    reasoning: Text = EMPTY

    def body(self) -> dict[str, Any]:
        """Give the message as the API wants it."""
        if self.role == "assistant":
            return {
                "role": "assistant",
                "reasoning_content": self.reasoning.text,
                "content": self.content.text,
            }
        return {"role": self.role, "content": self.content.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Hold the tag tokens between two neighbouring texts of a prompt.

    `exact` is False when the server does not tell token ids: then the counts are right, but the
    place of the tags at a prompt's two ends is a guess, worth one cache block at most.
    """

    between: Mapping[tuple[Slot, Slot], bytes]
    exact: bool

    def tokens(self, messages: Sequence[Message]) -> bytes:
        """Give the prompt as packed token ids, tags and generation prompt included."""
        slots: list[tuple[Slot, bytes]] = [("start", b"")]
        for message in messages:
            if message.role == "assistant":
                slots.append(("reasoning", message.reasoning.tokens))
                slots.append(("content", message.content.tokens))
            else:
                slots.append((message.role, message.content.tokens))
        slots.append(("end", b""))
        parts: list[bytes] = []
        for (before, _), (after, tokens) in pairwise(slots):
            parts.append(self.between[before, after])
            parts.append(tokens)
        return b"".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Hold what the cache sees of a prompt: its length and the chain hash of each full block."""

    token_count: int
    blocks: tuple[bytes, ...]


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
