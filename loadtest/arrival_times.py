"""Say when the sessions of an open loop are due: pure, and the same in every process."""

from __future__ import annotations

import random
from collections.abc import Iterator

from loadtest.settings import LoadSettings
from loadtest.stages import time_of

_ARRIVAL_CV = 1.5  # burstiness of session arrivals in production traces (ServeGen)


def arrivals(settings: LoadSettings) -> Iterator[float]:
    """Give the due time of every session of the test, of all processes.

    Gaps at one session a unit of time become times by the rate, so that the rate may change.
    """
    rng = random.Random(f"{settings.seed}/arrivals")  # noqa: S311 - no secret
    sessions = 0.0
    for gap in _gaps(rng):
        sessions += gap
        due_s = _due_s(settings, sessions)
        if due_s is None:
            return
        yield due_s


def _gaps(rng: random.Random) -> Iterator[float]:
    shape = 1 / _ARRIVAL_CV**2
    while True:
        yield rng.gammavariate(shape, 1 / shape)


def _due_s(settings: LoadSettings, sessions: float) -> float | None:
    if settings.sessions_per_minute is not None:
        return sessions * 60 / settings.sessions_per_minute
    return time_of(settings.stages, sessions)
