"""Generate when sessions arrive: pure, as gaps in seconds.

Two processes: gamma with a coefficient of variation (1 is Poisson, that is users who know nothing
of each other; production traffic is burstier), and a list of recorded arrival times.

All gaps scale with 1/rate. Whoever changes the rate while running asks for gaps at rate 1 and
divides each by the rate of the moment.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Annotated, Protocol

from pydantic import AfterValidator, Field, Strict

from fleet.errors import ConfigError
from fleet.schema import FileModel, refuse

_LEAST_CV = 0.01  # below it the shape of the gamma distribution runs out of a float's range
_MAX_CV = 10.0


class ArrivalProcess(Protocol):
    """Give the gaps between session starts."""

    @property
    def own_rate_per_s(self) -> float | None:
        """Give the rate that it has by itself, None when it takes any."""
        ...

    def gaps_s(self, rng: random.Random, rate_per_s: float) -> Iterator[float]:
        """Yield gaps in seconds for ever, the first before the first arrival.

        Raises ValueError for a rate that is no positive number.
        """
        ...


def _cv(cv: float) -> float:
    if 0 < cv < _LEAST_CV:
        raise refuse(f"{cv:g} is too small", f"Give 0 for even gaps, or {_LEAST_CV} and more")
    return cv


class Arrivals(FileModel):
    """Let sessions arrive with gamma distributed gaps."""

    cv: Annotated[float, Strict(), Field(ge=0, le=_MAX_CV), AfterValidator(_cv)] = (
        1.0  # standard deviation of the gaps / their mean: 0 is even, 1 is Poisson
    )

    @property
    def own_rate_per_s(self) -> None:
        """Give None: any rate will do."""
        return None

    def gaps_s(self, rng: random.Random, rate_per_s: float) -> Iterator[float]:
        """Yield gaps in seconds for ever."""
        mean_s = _mean_gap_s(rate_per_s)
        return self._drawn(rng, mean_s) if self.cv else cycle([mean_s])

    def _drawn(self, rng: random.Random, mean_s: float) -> Iterator[float]:
        shape = 1 / self.cv**2
        while True:
            yield rng.gammavariate(shape, mean_s / shape)


POISSON = Arrivals(cv=1.0)
"""Of sessions that know nothing of each other."""


@dataclass(frozen=True, slots=True)
class RecordedArrivals:
    """Repeat the gaps of recorded arrivals, stretched to the rate that is asked for.

    Raises ConfigError for times that are not in order, or fewer than two.
    """

    times_s: Sequence[float]

    def __post_init__(self) -> None:
        """Refuse what gives no gaps."""
        times_s = self.times_s
        if not all(math.isfinite(time_s) for time_s in times_s):
            raise ConfigError("arrivals: a time is no number. Give seconds.")
        if any(after < before for before, after in pairwise(times_s)):
            raise ConfigError("arrivals: the times go back. Sort them.")
        if len(times_s) < 2 or times_s[-1] <= times_s[0]:
            raise ConfigError("arrivals: all are at one time. Give two different times at least.")

    @property
    def own_rate_per_s(self) -> float:
        """Give the mean rate of the recording."""
        return (len(self.times_s) - 1) / (self.times_s[-1] - self.times_s[0])

    def gaps_s(self, rng: random.Random, rate_per_s: float) -> Iterator[float]:
        """Yield gaps in seconds for ever; after the last recorded one the first comes again."""
        del rng  # nothing is left to chance
        stretch = _mean_gap_s(rate_per_s) * self.own_rate_per_s
        return cycle([(after - before) * stretch for before, after in pairwise(self.times_s)])


def _mean_gap_s(rate_per_s: float) -> float:
    if not 0 < rate_per_s < math.inf:
        raise ValueError(f"rate_per_s: {rate_per_s} is no positive number")
    return 1 / rate_per_s
