"""Turn rows of recorded block ids into calls that say what they add."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadtest.replay.files import Entry
from loadtest.replay.recording import MAX_PROMPT_TOKENS, MAX_UNITS, NO_BLOCKS, Call, kept


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCall:
    """Hold what a reader knows of one call of an agent."""

    agent: str
    at_s: float
    input_tokens: int
    output_tokens: int
    after_tool: bool
    ids: array[int]
    tail_id: int | None
    gap_s: float = 0.0


def cut_ids(
    entry: Entry, place: str, ids: Sequence[int], tokens: int, block_size: int
) -> tuple[array[int], int | None]:
    """Split ids into those of full blocks and that of a last part of one, if it has an id.

    Raises ConfigError for ids that do not fit the prompt's length.
    """
    blocks = pack_ids(entry, place, ids)
    if len(blocks) * block_size > MAX_PROMPT_TOKENS + block_size:
        entry.refuse(place, f"more than {MAX_PROMPT_TOKENS} tokens", "Leave the call out")
    if len(blocks) * block_size <= tokens:
        return blocks, None
    if (len(blocks) - 1) * block_size >= tokens:
        what = f"{len(blocks)} blocks of {block_size} tokens for a prompt of {tokens}"
        entry.refuse(place, what, "Correct it, or give the block size: replay.block_size")
    return blocks[:-1], blocks[-1]


def pack_ids(entry: Entry, place: str, ids: Sequence[int]) -> array[int]:
    """Pack ids to 8 bytes each; raises ConfigError for one that has more, or a sign."""
    if not ids:
        return NO_BLOCKS
    try:
        return array("Q", ids)
    except OverflowError:
        entry.refuse(place, "an id is negative or has more than 64 bits", "Write ids of 64 bits")


@dataclass(slots=True)
class IdBudget:
    """Count the ids that are kept while a file is read, so that none is too large for memory."""

    left: int = MAX_UNITS

    def cut(
        self, entry: Entry, place: str, ids: Sequence[int], tokens: int, block_size: int
    ) -> tuple[array[int], int | None]:
        """Cut ids as `cut_ids` does; raises ConfigError when there are too many in all."""
        self.left -= len(ids)
        if self.left < 0:
            what = f"more than {MAX_UNITS} block ids up to here"
            entry.refuse(place, what, "Give a part of the file")
        return cut_ids(entry, place, ids, tokens, block_size)


@dataclass(slots=True)
class BlockHistory:
    """Remember the latest prompt of each agent of a session."""

    _latest: dict[str, array[int]] = field(default_factory=dict)

    def call(self, made: BlockCall) -> Call:
        """Make the call that adds to its agent's latest prompt; calls come in order of time."""
        before = self._latest.get(made.agent, NO_BLOCKS)
        keep = kept(before, made.ids)
        self._latest[made.agent] = made.ids
        return Call(
            agent=made.agent,
            at_s=made.at_s,
            gap_s=made.gap_s,
            input_tokens=made.input_tokens,
            output_tokens=made.output_tokens,
            after_tool=made.after_tool,
            keep=keep,
            blocks=made.ids[keep:] if keep else made.ids,
            tail_id=made.tail_id,
        )
