"""Know the time and let it pass, in a way that tests can replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time of the day, and a way to let time pass."""

    now: Callable[[], datetime]
    pause: Callable[[float], None]  # seconds

    def until(self, done: Callable[[], bool], *, within: timedelta, every_s: float) -> bool:
        """Look again and again until it is done; look once at least; False: too late."""
        deadline = self.now() + within
        while not done():
            left_s = (deadline - self.now()).total_seconds()
            if left_s <= 0:
                return False
            self.pause(min(every_s, left_s))
        return True
