"""Wait for something in the world, never longer than allowed, and only while nobody objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

# A wait that is over soon is looked at soon again, so it takes twice as long as it has to at most.
FIRST_S = 1 / 16
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
    first_s: float = FIRST_S  # before the second look

    def until(self, missing: Callable[[], str], timeout_s: float) -> Waiting:
        """Look again and again until nothing is missing (an empty text); look once at least."""
        began_s = self.clock()
        deadline = began_s + timeout_s
        while True:
            found = missing()
            if not found:
                return Waiting("held", "")
            if self.stop():
                return Waiting("stopped", found)
            now_s = self.clock()
            if now_s >= deadline:
                return Waiting("late", found)
            self.pause(min(max(self.first_s, now_s - began_s), POLL_S, deadline - now_s))
