"""Say when the sessions of an open loop are due: pure, and the same in every process."""

from __future__ import annotations

import random
from collections.abc import Iterator

from fleet.errors import ConfigError
from loadtest.play.stages import most_level, time_of
from loadtest.settings import LoadSettings
from loadtest.traffic.arrivals import ArrivalProcess


def arrivals(settings: LoadSettings, process: ArrivalProcess) -> Iterator[float]:
    """Give the due time of every session of the test, of all processes.

    Gaps at one session a second become times by the rate of the moment, so that it may change.
    """
    rng = random.Random(f"{settings.seed}/arrivals")  # noqa: S311 - no secret
    per_minute = None if settings.stages else rate_per_minute(settings, process)
    sessions = 0.0
    for gap in process.gaps_s(rng, 1.0):
        sessions += gap
        due_s = (
            time_of(settings.stages, sessions)
            if per_minute is None
            else (sessions * 60 / per_minute)
        )
        if due_s is None:
            return
        yield due_s


def rate_per_minute(settings: LoadSettings, process: ArrivalProcess) -> float:
    """Give the rate of an open loop, of stages the highest; raises ConfigError without one."""
    if settings.stages:
        return most_level(settings.stages)
    if settings.sessions_per_minute is not None:
        return settings.sessions_per_minute
    if process.own_rate_per_s is None:
        raise ConfigError(
            f"replay.arrivals: {settings.traffic} does not say when its sessions began, or all "
            "began at one time. Give sessions_per_minute or users instead."
        )
    return process.own_rate_per_s * 60
