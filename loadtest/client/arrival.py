"""Tell when bytes arrived, and not when this process got to read them.

Under load a reader is late: other streams are served first, the process waits for a core. Linux
notes for each segment when the network gave it (SO_TIMESTAMPNS). That note is on the clock of the
day, which may be set; here it only says how long ago it was, and a note from before the clock was
set is not believed. What is returned is always on the caller's monotonic clock.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

Clock = Callable[[], float]

SO_TIMESTAMPNS = 35  # asm-generic/socket.h; Python's socket module does not name it
ANCILLARY_BYTES = socket.CMSG_SPACE(16)

_TIMESPEC = struct.Struct("qq")  # struct timespec of 64-bit Linux: seconds, nanoseconds
_STEP_S = 0.001  # more, between two reads, is a step and not the kernel's slewing…
_SLEW = 0.001  # …which is half of this share of the time in between, at most (adjtimex(2))
_TRIES = 5


class ArrivalClock:
    """Turn the kernel's notes into moments of a monotonic clock."""

    def __init__(self, clock: Clock, wall_clock: Clock) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._read_s = clock()
        self._believed_from_s = wall_clock()  # nothing can have arrived before there was a reader
        self._difference_s = self._believed_from_s - self._read_s

    def moment(self, ancillary: list[tuple[int, int, bytes]]) -> tuple[float, float]:
        """Give the moment of arrival, and how late the read is; now and 0 without a note."""
        now_s, wall_s = self._clock(), self._wall_clock()
        if self._is_step(now_s, wall_s):
            # Or this process lost its core between the two looks: then another look tells.
            now_s, wall_s = self._look_closely()
            if self._is_step(now_s, wall_s):
                self._believed_from_s = wall_s
        self._read_s, self._difference_s = now_s, wall_s - now_s
        for _, kind, note in ancillary:
            if kind == SO_TIMESTAMPNS and len(note) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(note)
                arrived_s = seconds + nanoseconds * 1e-9
                if self._believed_from_s <= arrived_s <= wall_s:
                    return now_s - (wall_s - arrived_s), wall_s - arrived_s
        return now_s, 0.0

    def _is_step(self, now_s: float, wall_s: float) -> bool:
        allowed_s = _STEP_S + _SLEW * (now_s - self._read_s)
        return abs(wall_s - now_s - self._difference_s) > allowed_s

    def _look_closely(self) -> tuple[float, float]:
        """Read both clocks with nothing in between, as far as that can be had."""
        for _ in range(_TRIES):
            now_s, wall_s = self._clock(), self._wall_clock()
            if self._clock() - now_s < _STEP_S / 2:
                break
        return now_s, wall_s
