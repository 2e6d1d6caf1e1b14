"""Say what the outline of a session is: order, lengths and pauses of its calls, not one word.

A call does not repeat the history. It says how many messages of its agent's history stay (`kept`)
and which follow them (`added`): that is also all that a prefix cache sees.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

from loadtest.traffic.profile_schema import ImageSize, LogNormal, Profile
from loadtest.traffic.scale import Scale

Kind = Literal["first", "resume", "user", "tool", "compaction", "subagent"]
Shared = tuple[Literal["harness", "subagent"], int]
"""A prompt that many sessions start with: whose it is, and of which harness version."""


class Piece(NamedTuple):
    """Hold the lengths of one message, in tokens."""

    key: int
    """Number within the session: a message that is rewritten keeps it, and so its words."""
    role: Literal["system", "user", "assistant", "tool"]
    tokens: int
    reasoning: int = 0
    arguments: tuple[int, ...] = ()
    """One length for each tool call of an answer; as many `tool` pieces follow it."""
    images: tuple[ImageSize, ...] = ()

    @property
    def size(self) -> int:
        """Count all tokens of the message."""
        size = self.tokens + self.reasoning
        if self.arguments:
            size += sum(self.arguments)
        if self.images:
            size += sum(image.tokens for image in self.images)
        return size


class Call(NamedTuple):
    """Hold one call of the model."""

    agent: str
    """Empty for the session itself; a sub-agent has a number."""
    prefix: Shared
    """What its prompt starts with: the `system` piece, and the tools that are declared."""
    forks: bool
    """First call of a sub-agent that goes on from its parent's prompt: `kept` counts there."""
    turn: int
    kind: Kind
    gap_s: float
    """Pause between the last answer in the session and this call, neither scaled nor cut."""
    kept: int
    added: tuple[Piece, ...]
    prompt_tokens: int
    output_tokens: int
    answer: Piece | None
    """What the history holds of the answer; None when the client hangs up."""
    cancel_after: float | None


@dataclass(slots=True)
class Dice:
    """Draw what a profile leaves to chance, all from one stream."""

    profile: Profile
    scale: Scale
    rng: random.Random
    keys: int = 0
    _parallel: list[float] = field(init=False)

    def __post_init__(self) -> None:
        """Add the shares up once: they are drawn from at every call."""
        self._parallel = list(accumulate(self.profile.parallel_tool_calls))

    def chance(self, share: float) -> bool:
        """Say yes with a probability."""
        return share > 0 and self.rng.random() < share

    def count(self, distribution: LogNormal) -> int:
        """Draw a number of things, one at least."""
        return max(1, round(distribution.draw(self.rng)))

    def length(self, distribution: LogNormal, least: int = 1) -> int:
        """Draw a scaled number of tokens."""
        return self.scale.length(distribution.draw(self.rng), least)

    def tool_calls(self) -> int:
        """Draw how many tools an answer calls at once."""
        drawn = self.rng.random() * self._parallel[-1]
        return next(index for index, edge in enumerate(self._parallel, 1) if drawn < edge)

    def parts(self, total: int, count: int) -> list[int]:
        """Split a length at random places into parts of one token at least."""
        if count == 1:
            return [total]
        spare = total - count
        cuts = sorted(self.rng.randint(0, spare) for _ in range(count - 1))
        edges = [0, *cuts, spare]
        return [1 + edges[index + 1] - edges[index] for index in range(count)]

    def images(self) -> tuple[ImageSize, ...]:
        """Draw the images of one question."""
        images = self.profile.images
        if not self.chance(images.turn_share):
            return ()
        sizes = self.rng.choices(images.sizes, k=self.count(images.per_turn))
        return tuple(size.shrunk(self.scale.tokens) for size in sizes)

    def key(self) -> int:
        """Number a new piece."""
        self.keys += 1
        return self.keys
