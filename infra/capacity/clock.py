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
        deadline, paused_s = self.now() + within, 0.0
        while not done():
            left_s = (deadline - self.now()).total_seconds()
            left_s = min(left_s, within.total_seconds() - paused_s)  # a clock may be set back
            if left_s <= 0:
                return False
            pause_s = min(every_s, left_s)
            self.pause(pause_s)
            paused_s += pause_s
        return True
