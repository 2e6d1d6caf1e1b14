"""Turn recorded block ids into words, and remember where messages begin.

All prompts of one play live in one tree of blocks. It is kept in flat lists and not in node
objects: a session holds thousands of blocks, and objects by the hundred thousand make the garbage
collector pause for longer than a token takes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadtest.prompts import Message, Role
from loadtest.words import Text, Vocabulary

_ROOT = -1
_MASK = 0xFFFF_FFFF_FFFF_FFFF

# Constants of the splitmix64 generator (Steele, Lea, Flood 2014).
_GAMMA = np.uint64(0x9E37_79B9_7F4A_7C15)
_MIX_1 = np.uint64(0xBF58_476D_1CE4_E5B9)
_MIX_2 = np.uint64(0x94D0_49BB_1331_11EB)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWords:
    """Write the words of blocks: how many by the block's place, which by its id and a key."""

    vocabulary: Vocabulary
    block_size: int
    token_scale: float

    def write(
        self, ids: Sequence[int], first_place: int, key: str
    ) -> tuple[list[str], list[bytes]]:
        """Give text and packed token ids of consecutive blocks."""
        counts = [self._count(first_place + index) for index in range(len(ids))]
        most = math.ceil(self.block_size / self.token_scale)
        return self.vocabulary.rows(_noise(ids, most, key), counts)

    def _count(self, place: int) -> int:
        """Spread block_size ÷ token_scale words evenly when that is no whole number."""
        words = self.block_size / self.token_scale
        return int((place + 1) * words) - int(place * words)


def _noise(ids: Sequence[int], columns: int, key: str) -> NDArray[np.uint64]:
    """Hash every id to a row of numbers, all rows at once."""
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
    with np.errstate(over="ignore"):
        rows = np.array([id_ & _MASK for id_ in ids], dtype=np.uint64) * _MIX_2 + np.uint64(seed)
        steps = np.arange(1, columns + 1, dtype=np.uint64) * _GAMMA
        mixed = rows[:, None] + steps[None, :]
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
        noise: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
        return noise


@dataclass(slots=True, kw_only=True)
class BlockTree:
    """Hold the blocks of one play; `system_ids` are those that all plays share."""

    words: BlockWords
    system_ids: Sequence[int]
    shared_key: str
    private_key: str
    _children: dict[tuple[int, int], int] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)
    _tokens: list[bytes] = field(default_factory=list)
    _roles: list[Role] = field(default_factory=list)
    _opens: list[bool] = field(default_factory=list)

    def messages(self, ids: Sequence[int], answer_blocks: int) -> list[Message]:
        """Give the messages of a prompt; blocks that are new to the tree join it.

        The new blocks are the answer to the prompt before, as far as its length goes, and then
        what the user or a tool added. A message starts where an earlier prompt ended, so what
        two recorded prompts share stays shared.
        """
        path: list[int] = []
        node = _ROOT
        for id_ in ids:
            child = self._children.get((node, id_))
            if child is None:
                break
            path.append(child)
            node = child
        known = len(path)
        if known < len(ids):
            path.extend(self._grow(ids, known, node, answer_blocks))
        return self._cut(path)

    def _grow(self, ids: Sequence[int], known: int, parent: int, answer_blocks: int) -> range:
        shared = self._shared_length(ids)
        texts, tokens = self._write(ids, known, shared)
        role: Role = self._roles[parent] if parent != _ROOT else "system"
        first = len(self._texts)
        for added in range(len(ids) - known):
            place = known + added
            opened = _opening(role, added, answer_blocks)
            if place == 0:
                opened = "system"
            elif place == len(self.system_ids) and role == "system":
                opened = "user"
            role = opened or role
            self._children[parent, ids[place]] = parent = first + added
            self._roles.append(role)
            self._opens.append(opened is not None)
        self._texts += texts
        self._tokens += tokens
        return range(first, len(self._texts))

    def _shared_length(self, ids: Sequence[int]) -> int:
        length = 0
        for ours, system in zip(ids, self.system_ids, strict=False):
            if ours != system:
                break
            length += 1
        return length

    def _write(self, ids: Sequence[int], known: int, shared: int) -> tuple[list[str], list[bytes]]:
        shared = max(known, shared)
        texts, tokens = self.words.write(ids[known:shared], known, self.shared_key)
        more_texts, more_tokens = self.words.write(ids[shared:], shared, self.private_key)
        return texts + more_texts, tokens + more_tokens

    def _cut(self, path: Sequence[int]) -> list[Message]:
        starts = [index for index, node in enumerate(path) if self._opens[node]]
        return [self._message(path[a:b]) for a, b in pairwise([*starts, len(path)])]

    def _message(self, nodes: Sequence[int]) -> Message:
        """Make a message; an assistant's first block is its reasoning, wherever it is cut later."""
        role = self._roles[nodes[0]]
        if role == "assistant":
            return Message(
                role=role, reasoning=self._join(nodes[:1]), content=self._join(nodes[1:])
            )
        return Message(role=role, content=self._join(nodes))

    def _join(self, nodes: Sequence[int]) -> Text:
        texts, tokens = self._texts, self._tokens
        return Text("".join([texts[n] for n in nodes]), b"".join([tokens[n] for n in nodes]))


def _opening(role: Role, added: int, answer_blocks: int) -> Role | None:
    """Say which message a new block opens, if any; the first new ones are the answer."""
    if added == 0:
        return "assistant" if answer_blocks and role == "user" else "user"
    return "user" if added == answer_blocks and role == "assistant" else None
