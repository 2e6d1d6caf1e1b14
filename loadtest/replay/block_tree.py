"""Turn recorded block ids into words, and remember where messages begin.

All prompts of one play live in one tree. Its pieces are runs of blocks that no prompt has left
in the middle, so a session of thousands of blocks has some hundred pieces; a prompt that leaves a
piece in the middle cuts it in two. Words are kept with messages only, and made again when a
message is cut: the same ids give the same words.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadtest.prompt.prompts import Message, Role
from loadtest.prompt.words import EMPTY, Text, Vocabulary
from loadtest.replay.recording import kept

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

    def count(self, blocks: int) -> int:
        """Tell how many words so many blocks from the start have: block_size ÷ token_scale each."""
        return int(blocks * (self.block_size / self.token_scale))

    def write(self, ids: array[int], place: int, key: str) -> Text:
        """Write consecutive blocks of which the first stands at a place."""
        ends = [self.count(place + index) for index in range(len(ids) + 1)]
        return self._write(ids, key, [b - a for a, b in pairwise(ends)])

    def start_of(self, id_: int, key: str, words: int) -> Text:
        """Write the first words of a block."""
        return self._write(array("Q", [id_]), key, [words])

    def _write(self, ids: array[int], key: str, counts: Sequence[int]) -> Text:
        total = sum(counts)
        if not total:
            return EMPTY
        most = max(math.ceil(self.block_size / self.token_scale), *counts)
        noise = _noise(ids, most, key)
        if total < noise.size:
            columns = np.arange(most)
            noise = noise[columns[None, :] < np.asarray(counts)[:, None]]
        return self.vocabulary.text(noise.reshape(-1)[:total])


def _noise(ids: array[int], columns: int, key: str) -> NDArray[np.uint64]:
    """Hash every id to a row of numbers, all rows at once."""
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
    with np.errstate(over="ignore"):
        rows = np.frombuffer(ids, dtype=np.uint64) * _MIX_2 + np.uint64(seed)
        steps = np.arange(1, columns + 1, dtype=np.uint64) * _GAMMA
        mixed = rows[:, None] + steps[None, :]
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
        noise: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
        return noise


@dataclass(slots=True, kw_only=True, eq=False)
class _Piece:
    """Hold a run of blocks; one that does not open a message goes on with its parent's."""

    ids: array[int]
    place: int
    role: Role
    opens: bool
    key: str
    children: dict[int, _Piece] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.place + len(self.ids)


@dataclass(slots=True, kw_only=True)
class BlockTree:
    """Hold the blocks of one play; `system` are runs from the start that all plays share."""

    words: BlockWords
    system: Sequence[array[int]]
    shared_key: str
    private_key: str
    _root: _Piece = field(init=False)
    _known: dict[str, dict[tuple[_Piece, int], Message]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put the shared runs into the tree, before anything private."""
        self._root = _Piece(ids=array("Q"), place=0, role="system", opens=True, key="")
        for ids in self.system:
            path, at = self._walk(ids)
            if at < len(ids):
                self._grow(path[-1], ids[at:], "system", opens=at == 0, key=self.shared_key)

    def messages(self, ids: array[int], answer_blocks: int, agent: str = "") -> list[Message]:
        """Give the messages of an agent's prompt; blocks that are new to the tree join it.

        The new blocks are the answer to the prompt before, as far as its length goes, and then
        what the user or a tool added. A message starts where an earlier prompt ended, so what
        two recorded prompts share stays shared. Messages that the agent's prompt before had are
        the same objects.
        """
        path, at = self._walk(ids)
        while at < len(ids):
            last = path[-1]
            role: Role = "user"
            end = len(ids)
            if answer_blocks and last.role == "user":
                role, end = "assistant", min(end, at + answer_blocks)
            path.append(self._grow(last, ids[at:end], role, opens=True, key=self.private_key))
            at = end
        return self._cut(path[1:], agent)

    def _walk(self, ids: array[int]) -> tuple[list[_Piece], int]:
        """Follow ids from the root as far as the tree has them: pieces, and how many blocks."""
        path, at = [self._root], 0
        while at < len(ids) and (child := path[-1].children.get(ids[at])) is not None:
            length = kept(child.ids, ids[at : at + len(child.ids)])
            if length < len(child.ids):
                _split(child, length)
            path.append(child)
            at += length
        return path, at

    def _grow(
        self, parent: _Piece, ids: array[int], role: Role, *, opens: bool, key: str
    ) -> _Piece:
        piece = _Piece(ids=ids, place=parent.end, role=role, opens=opens, key=key)
        parent.children[ids[0]] = piece
        return piece

    def _cut(self, path: Sequence[_Piece], agent: str) -> list[Message]:
        """Cut a path into messages, each of the pieces from one that opens to the next."""
        before = self._known.get(agent, {})
        now: dict[tuple[_Piece, int], Message] = {}
        start = 0
        for index, piece in enumerate(path, start=1):
            if index < len(path) and not path[index].opens:
                continue
            name = (piece, piece.end)
            now[name] = before.get(name) or self._message(path[start:index])
            start = index
        self._known[agent] = now
        return list(now.values())

    def _message(self, pieces: Sequence[_Piece]) -> Message:
        """Make a message; an assistant's first block is its reasoning, wherever it is cut later."""
        first = pieces[0]
        ids = sum((piece.ids for piece in pieces[1:]), first.ids)
        if first.role != "assistant":
            content = self.words.write(ids, first.place, first.key)
            return Message(role=first.role, content=content)
        return Message(
            role=first.role,
            reasoning=self.words.write(ids[:1], first.place, first.key),
            content=self.words.write(ids[1:], first.place + 1, first.key),
        )


def _split(piece: _Piece, length: int) -> None:
    """Let a piece end after so many blocks; the rest becomes its only child."""
    rest = _Piece(
        ids=piece.ids[length:],
        place=piece.place + length,
        role=piece.role,
        opens=False,
        key=piece.key,
        children=piece.children,
    )
    piece.ids = piece.ids[:length]
    piece.children = {rest.ids[0]: rest}
