"""Search the largest number of agents that a fleet serves inside its service levels.

Pure: the trials so far come in, the next number of agents goes out. It doubles until the fleet
fails, halves the interval, and then measures both sides of the limit again. A measurement is
noisy, so it has one vote: two at the same number that disagree are followed by a third, and so is
a failure below a success.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Outcome = Literal["inside", "outside", "unclear"]

_MOST_UNCLEAR = 3  # trials at one number that could not be judged
_VOTES = 2  # that the two sides of the limit need at least


class SearchOptions(BaseModel):
    """Hold where to search, for how long to look, and what a fleet must keep; None = no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    start: int = Field(default=8, ge=1, le=1_000_000)
    most: int = Field(default=1024, ge=1, le=1_000_000)
    tolerance: float = Field(default=0.05, gt=0, lt=1)
    """How near the answer has to be, as a share of it."""
    settle_s: float = Field(default=30.0, gt=0)
    """Time after each change that is not measured."""
    measure_s: float = Field(default=60.0, gt=0)
    most_trials: int = Field(default=30, ge=1, le=1000)
    least_requests: int = Field(default=50, ge=1)
    """Fewer in a trial say nothing."""
    ttft_p95_ms: float | None = Field(default=None, gt=0)
    tpot_p95_ms: float | None = Field(default=None, gt=0)
    hit_ratio: float | None = Field(default=None, gt=0, le=1)
    """Least achieved ÷ attainable cache hit."""
    error_rate: float = Field(default=0.005, ge=0, le=1)
    lag_p99_ms: float = Field(default=50.0, gt=0)
    """A generator that is later than this measures itself."""

    @property
    def longest_s(self) -> float:
        """Give the time that all trials take at most, without that in which users are started."""
        return self.most_trials * (self.settle_s + self.measure_s)

    @model_validator(mode="after")
    def _start_is_in_reach(self) -> SearchOptions:
        if self.start > self.most:
            raise ValueError(f"start {self.start} is above most {self.most}")
        if self.ttft_p95_ms is None and self.tpot_p95_ms is None and self.hit_ratio is None:
            raise ValueError("give ttft_p95_ms, tpot_p95_ms or hit_ratio: there is no limit yet")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Hold what one trial measured."""

    requests: int
    errors: int
    ttft_p95_ms: float | None
    tpot_p95_ms: float | None
    hit_ratio: float | None
    lag_p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Hold how one number of agents came out."""

    users: int
    outcome: Outcome
    why: str
    figures: Figures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Ask for one more measurement."""

    users: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """End the search; `users` is None when no number was inside.

    `settled` is False when it ended for want of trials, or because a trial could not be judged.
    """

    users: int | None
    settled: bool
    why: str


def judge_trial(users: int, figures: Figures, options: SearchOptions) -> Trial:
    """Compare what one trial measured with the service levels."""
    if figures.lag_p99_ms > options.lag_p99_ms:
        why = f"the generator was {figures.lag_p99_ms:.0f} ms late. Give it more workers"
        return Trial(users=users, outcome="unclear", why=why, figures=figures)
    if figures.requests < options.least_requests:
        why = f"{figures.requests} requests are too few. Raise measure_s"
        return Trial(users=users, outcome="unclear", why=why, figures=figures)
    broken, missing = _broken(figures, options), _missing(figures, options)
    if broken:
        return Trial(users=users, outcome="outside", why="; ".join(broken), figures=figures)
    if missing:
        why = f"no {missing[0]} was measured"
        return Trial(users=users, outcome="unclear", why=why, figures=figures)
    return Trial(users=users, outcome="inside", why="inside all levels", figures=figures)


def next_trial(trials: Sequence[Trial], options: SearchOptions) -> Next | Found:
    """Say what to measure next, or what was found."""
    votes = _Votes(trials)
    low, high = votes.interval()
    if stuck := votes.stuck():
        return Found(users=low, settled=False, why=f"{stuck.users} users: {stuck.why}.")
    if len(trials) >= options.most_trials:
        return Found(users=low, settled=False, why=f"all {options.most_trials} trials were used.")
    if (users := votes.disputed()) is not None:
        return Next(users=users, why="measurements disagree")
    if high is None:
        return _upward(low, votes, options)
    return _between(low, high, votes, options)


def _between(low: int | None, high: int, votes: _Votes, options: SearchOptions) -> Next | Found:
    floor = low or 0
    if high - floor > max(1, math.floor(options.tolerance * floor)):
        return Next(users=(floor + high) // 2, why=f"between {floor} and {high}")
    for users in filter(None, (low, high)):
        if votes.count(users) < _VOTES:
            return Next(users=users, why="confirm")
    return Found(users=low, settled=True, why=f"{high} users are too many.")


def _upward(low: int | None, votes: _Votes, options: SearchOptions) -> Next | Found:
    if low is None:
        return Next(users=options.start, why="start")
    if low < options.most:
        return Next(users=min(options.most, low * 2), why="double")
    if votes.count(low) < _VOTES:
        return Next(users=low, why="confirm")
    return Found(users=low, settled=True, why=f"{low} users is as far as the search may go.")


class _Votes:
    """Count what the trials say of each number of agents."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = trials
        self._balance: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        for trial in trials:
            if trial.outcome != "unclear":
                vote = 1 if trial.outcome == "inside" else -1
                self._balance[trial.users] = self._balance.get(trial.users, 0) + vote
                self._counts[trial.users] = self._counts.get(trial.users, 0) + 1

    def count(self, users: int) -> int:
        """Count the trials at a number that could be judged."""
        return self._counts.get(users, 0)

    def interval(self) -> tuple[int | None, int | None]:
        """Give the limit's two sides: nothing at or below the low one is outside."""
        outside = [users for users, balance in self._balance.items() if balance < 0]
        high = min(outside, default=None)
        inside = [
            users
            for users, balance in self._balance.items()
            if balance > 0 and (high is None or users < high)
        ]
        return max(inside, default=None), high

    def disputed(self) -> int | None:
        """Find a number whose trials disagree, or a single failure below a success."""
        tied = [users for users, balance in self._balance.items() if balance == 0]
        if tied:
            return min(tied)
        for users, balance in sorted(self._balance.items()):
            above = [other for other, votes in self._balance.items() if other > users and votes > 0]
            if balance < 0 and above:
                for candidate in (users, min(above)):
                    if self.count(candidate) < _VOTES:
                        return candidate
        return None

    def stuck(self) -> Trial | None:
        """Find a number that could not be judged, however often it was tried."""
        if not self._trials:
            return None
        last = self._trials[-1]
        unclear = [t for t in self._trials if t.users == last.users and t.outcome == "unclear"]
        return last if last.outcome == "unclear" and len(unclear) >= _MOST_UNCLEAR else None


def _broken(figures: Figures, options: SearchOptions) -> list[str]:
    found: list[str] = []
    for name, value, limit in _limits(figures, options):
        if value is not None and limit is not None and value > limit:
            found.append(f"{name} {value:.4g} is above {limit:.4g}")
    ratio = figures.hit_ratio
    if options.hit_ratio is not None and ratio is not None and ratio < options.hit_ratio:
        found.append(f"hit_ratio {ratio:.4g} is below {options.hit_ratio:.4g}")
    return found


def _missing(figures: Figures, options: SearchOptions) -> list[str]:
    wanted = [(name, value) for name, value, limit in _limits(figures, options) if limit]
    if options.hit_ratio is not None:
        wanted.append(("hit_ratio", figures.hit_ratio))
    return [name for name, value in wanted if value is None]


def _limits(
    figures: Figures, options: SearchOptions
) -> tuple[tuple[str, float | None, float | None], ...]:
    return (
        ("error_rate", figures.errors / max(1, figures.requests), options.error_rate),
        ("ttft_p95_ms", figures.ttft_p95_ms, options.ttft_p95_ms),
        ("tpot_p95_ms", figures.tpot_p95_ms, options.tpot_p95_ms),
    )
