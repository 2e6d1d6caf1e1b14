"""Tell how well the generator itself does: lag, CPU, events, offered against achieved load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from loadtest.results.histogram import Histogram

EVENTS_PER_CORE_S = 5000.0
"""Stream events a second up to which one core stamps times within a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Hold how one process stands; rates and lags are since its last report."""

    at_s: float
    stage: str
    users: int
    sessions: int
    """In play, where sessions begin at a rate; else the users."""
    sessions_started: int
    arrivals_due: int
    calls_in_flight: int
    cpu_share: float
    memory_bytes: int
    events_per_s: float
    lags: tuple[int, ...]
    played_out: bool = False
    """Nothing is left to play: the traffic has so many sessions, and all were played."""

    def plain(self) -> dict[str, Any]:
        """Give what msgpack and JSON take."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Health:
        """Take what `plain` gave."""
        known = {entry.name: plain[entry.name] for entry in fields(cls)}
        return cls(**known | {"lags": tuple(known["lags"])})

    @property
    def lag(self) -> Histogram:
        """Give how late things were."""
        return Histogram.unpacked(self.lags)
