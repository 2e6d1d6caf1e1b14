"""Say when the sessions of an open loop are due: pure, and the same in every process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from loadtest.play.stages import time_of
from loadtest.settings import LoadSettings

_ARRIVAL_CV = 1.5  # burstiness of session arrivals in production traces (ServeGen)


Gaps = Callable[[random.Random, float], Iterator[float]]
"""Gives gaps between sessions for a rate in sessions a second: an arrival process."""


def bursty(rng: random.Random, rate_per_s: float) -> Iterator[float]:
    """Give gamma distributed gaps in seconds for ever."""
    shape = 1 / _ARRIVAL_CV**2
    while True:
        yield rng.gammavariate(shape, 1 / (shape * rate_per_s))


def arrivals(settings: LoadSettings, gaps: Gaps = bursty) -> Iterator[float]:
    """Give the due time of every session of the test, of all processes.

    Gaps at one session a second become times by the rate of the moment, so that it may change.
    """
    rng = random.Random(f"{settings.seed}/arrivals")  # noqa: S311 - no secret
    sessions = 0.0
    for gap in gaps(rng, 1.0):
        sessions += gap
        due_s = _due_s(settings, sessions)
        if due_s is None:
            return
        yield due_s


def _due_s(settings: LoadSettings, sessions: float) -> float | None:
    if settings.sessions_per_minute is not None:
        return sessions * 60 / settings.sessions_per_minute
    return time_of(settings.stages, sessions)
