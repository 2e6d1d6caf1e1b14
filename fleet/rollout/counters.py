"""Define what frontends and replicas count about the traffic, and what was counted in a window.

Pure. Counters only grow; one that fell was reset by a restart, and has counted from zero since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Times to the first token, as a histogram of an engine gives them."""

    answers: float = 0.0
    seconds: float = 0.0  # of all answers together
    buckets: Mapping[float, float] = field(default_factory=dict)  # upper edge -> answers below it

    @property
    def mean_s(self) -> float:
        """Give the mean; the sum is exact, whatever the buckets."""
        return self.seconds / self.answers if self.answers else 0.0

    @property
    def spread(self) -> float:
        """Estimate standard deviation ÷ mean from the buckets; what they cannot tell counts as 1.

        One is the spread of an exponential distribution, a fair guess for waiting times.
        """
        edges = sorted(edge for edge in self.buckets if math.isfinite(edge))
        if not self.answers or not self.seconds or not edges:
            return 1.0
        squares = below = lower = 0.0
        for edge in edges:
            inside = self.buckets[edge] - below
            squares += inside * ((lower + edge) / 2) ** 2
            below, lower = self.buckets[edge], edge
        squares += (self.answers - below) * edges[-1] ** 2
        return math.sqrt(max(squares / self.answers - self.mean_s**2, 0.0)) / self.mean_s

    def since(self, before: FirstTokens) -> FirstTokens:
        """Give what came after an earlier reading."""
        if self.answers < before.answers:
            return self
        return FirstTokens(
            answers=self.answers - before.answers,
            seconds=self.seconds - before.seconds,
            buckets={e: n - before.buckets.get(e, 0.0) for e, n in self.buckets.items()},
        )

    def plus(self, other: FirstTokens) -> FirstTokens:
        """Add the answers of another replica."""
        edges = self.buckets.keys() | other.buckets.keys()
        return FirstTokens(
            answers=self.answers + other.answers,
            seconds=self.seconds + other.seconds,
            buckets={e: self.buckets.get(e, 0.0) + other.buckets.get(e, 0.0) for e in edges},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """Tokens of prompts, and those of them that a cache served, as the engine reported them."""

    prompt: float = 0.0
    cached: float = 0.0

    @property
    def hit(self) -> float | None:
        """Share that was cached; None without any token."""
        return self.cached / self.prompt if self.prompt else None

    def since(self, before: PromptTokens) -> PromptTokens:
        """Give what came after an earlier reading."""
        if self.prompt < before.prompt:
            return self
        return PromptTokens(prompt=self.prompt - before.prompt, cached=self.cached - before.cached)

    def plus(self, other: PromptTokens) -> PromptTokens:
        """Add the tokens of another replica or frontend."""
        return PromptTokens(prompt=self.prompt + other.prompt, cached=self.cached + other.cached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What one frontend has counted since it started."""

    requests: float = 0.0  # that have ended, without those that their clients spoilt
    errors: float = 0.0
    tokens: PromptTokens = PromptTokens()
    first_tokens: FirstTokens = FirstTokens()

    def since(self, before: Counts) -> Counts:
        """Give what came after an earlier reading."""
        if self.requests < before.requests:
            return self
        return Counts(
            requests=self.requests - before.requests,
            errors=self.errors - before.errors,
            tokens=self.tokens.since(before.tokens),
            first_tokens=self.first_tokens.since(before.first_tokens),
        )

    def plus(self, other: Counts) -> Counts:
        """Add another frontend."""
        return Counts(
            requests=self.requests + other.requests,
            errors=self.errors + other.errors,
            tokens=self.tokens.plus(other.tokens),
            first_tokens=self.first_tokens.plus(other.first_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCounts:
    """What the engine of one replica has counted; None where it does not publish it."""

    first_tokens: FirstTokens | None = None
    tokens: PromptTokens | None = None

    def since(self, before: ReplicaCounts) -> ReplicaCounts:
        """Give what came after an earlier reading."""
        return ReplicaCounts(
            first_tokens=self.first_tokens
            and self.first_tokens.since(before.first_tokens or FirstTokens()),
            tokens=self.tokens and self.tokens.since(before.tokens or PromptTokens()),
        )

    def plus(self, other: ReplicaCounts) -> ReplicaCounts:
        """Add another replica; what one of them does not publish is not known of both."""
        first, tokens = self.first_tokens, self.tokens
        return ReplicaCounts(
            first_tokens=first.plus(other.first_tokens) if first and other.first_tokens else None,
            tokens=tokens.plus(other.tokens) if tokens and other.tokens else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All counters of a region at one moment."""

    at_s: float  # monotonic
    frontends: Mapping[str, Counts]  # by address
    new: Mapping[str, ReplicaCounts]  # replicas of the step, by their pod's uid
    old: Mapping[str, ReplicaCounts]  # replicas that run another release


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was counted between two readings."""

    seconds: float
    region: Counts
    new: ReplicaCounts
    old: ReplicaCounts | None  # None: no other release serves in the region
    moving: bool = False  # sessions change over to the step's set, and begin there with no cache


def between(before: Reading, now: Reading) -> Window:
    """Add up what came after `before`; a source that is new has counted from its start."""
    return Window(
        seconds=now.at_s - before.at_s,
        region=lifetime(
            counts.since(before.frontends.get(name, Counts()))
            for name, counts in now.frontends.items()
        ),
        new=_all(before.new, now.new) or ReplicaCounts(),
        old=_all(before.old, now.old),
    )


def lifetime(frontends: Iterable[Counts]) -> Counts:
    """Add frontends up."""
    total = Counts()
    for counts in frontends:
        total = total.plus(counts)
    return total


def _all(
    before: Mapping[str, ReplicaCounts], now: Mapping[str, ReplicaCounts]
) -> ReplicaCounts | None:
    total: ReplicaCounts | None = None
    for uid, counts in now.items():
        part = counts.since(before.get(uid, ReplicaCounts()))
        total = part if total is None else total.plus(part)
    return total
