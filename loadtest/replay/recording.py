"""Hold recorded sessions in one form, whatever file they came from.

A recording holds no text. A prompt is either a row of block ids (formats that recorded a cache's
blocks) or a row of parts (formats that recorded lengths or messages). Either way a call says only
how its prompt differs from the one before: most prompts repeat their predecessor, and a session
of a thousand calls would else hold the same ids a thousand times.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from loadtest.prompt.prompts import Role

MAX_PROMPT_TOKENS = 16_777_216  # 16 times the longest context there is
MAX_TOKENS = MAX_PROMPT_TOKENS
"""Of an answer, or of any one length."""
MAX_SECONDS = 1e9
MAX_CALLS = 2_000_000
"""Calls of all recordings together: about 0.6 KB each."""
MAX_UNITS = 128 * 1024 * 1024
"""Block ids of all recordings together, at 8 bytes each."""

NO_BLOCKS: array[int] = array("Q")

_UnitT = TypeVar("_UnitT")


@dataclass(frozen=True, slots=True)
class Part:
    """Hold one message of a prompt: how long, and a key that decides its words.

    A `common` part has the same words in every session that has its key.
    """

    role: Role
    tokens: int
    key: str
    common: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Hold one recorded call; its prompt = the first `keep` units of its base's, then its own."""

    agent: str
    """Who calls: "" is the session itself, others are its sub-agents."""
    at_s: float
    """When it was sent, counted from the session's first call."""
    gap_s: float
    """The pause before it, counted from the end of what it waited for."""
    input_tokens: int
    output_tokens: int
    after_tool: bool
    """Whether a tool's result made the call, and not a person."""
    keep: int
    base: str | None = None
    """The agent whose latest prompt this one starts from; None = its own."""
    blocks: array[int] = field(default_factory=lambda: NO_BLOCKS)
    tail_id: int | None = None
    """Id of the last block, which is not full; None = nobody else has what follows the blocks."""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Hold one recorded session with its sub-agents, calls by time."""

    name: str
    calls: tuple[Call, ...]
    block_size: int = 0
    """Tokens of a block, 0 when its prompts are made of parts."""
    scope: Literal["session", "set"] = "session"
    """Where equal block ids mean equal text: in this session, or in all that were read with it."""
    system: tuple[array[int], ...] = ()
    """Blocks of tools and system prompts, which every play of the recording shares."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """Sub-agent: who started it."""
    start_s: float | None = None
    """When the session started, counted from the first of its set; None = not recorded."""


def kept(before: Sequence[_UnitT], now: Sequence[_UnitT]) -> int:
    """Count the units that two prompts start with alike, in few comparisons of whole slices."""
    most = min(len(before), len(now))
    if before[:most] == now[:most]:
        return most
    low, high = 0, most - 1
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == now[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def paced(calls: Iterable[tuple[Call, float]]) -> tuple[Call, ...]:
    """Sort calls by time and set the pause before each, given how long each took.

    Calls of a parent and its sub-agents overlapped; a replay makes them one after the other, so a
    call's pause counts from the latest end of all before it.
    """
    ordered = sorted(calls, key=lambda item: item[0].at_s)
    if not ordered:
        return ()
    first_s = free_s = ordered[0][0].at_s
    result: list[Call] = []
    for call, busy_s in ordered:
        gap_s = max(0.0, call.at_s - free_s)
        result.append(replace(call, at_s=call.at_s - first_s, gap_s=gap_s))
        free_s = max(free_s, call.at_s + busy_s)
    return tuple(result)
