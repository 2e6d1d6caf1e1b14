"""Wait for something in the world, never longer than allowed, and only while nobody objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

POLL_S = 0.5
# An update that a killed driver left behind goes on by itself; it ends within this, or somebody
# has to look at it.
LOCKED_S = 300.0
# An API server may be away for a while (an upgrade, a lost machine of etcd); then people decide.
AWAY_S = 300.0

Waited = Literal["held", "late", "stopped"]


class Waiting(NamedTuple):
    """How a wait ended; `missing` says what was not there at its last look."""

    how: Waited
    missing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A clock, a way to let time pass, and somebody who may end the wait."""

    clock: Callable[[], float]  # monotonic, in seconds
    pause: Callable[[float], None]
    stop: Callable[[], bool]

    def until(self, missing: Callable[[], str], timeout_s: float) -> Waiting:
        """Look again and again until nothing is missing (an empty text); look once at least."""
        deadline = self.clock() + timeout_s
        while True:
            found = missing()
            if not found:
                return Waiting("held", "")
            if self.stop():
                return Waiting("stopped", found)
            left = deadline - self.clock()
            if left <= 0:
                return Waiting("late", found)
            self.pause(min(POLL_S, left))
