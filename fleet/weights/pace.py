"""Keep to a rate, and say when it will be over. No clock in here: times are passed."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 60.0  # of which the speed is the mean: long enough for parts of a second each


class TokenBucket:
    """Lets so many bytes a second through; what was not used for a second may be caught up."""

    def __init__(self, bytes_per_s: float | None, now_s: float) -> None:
        self._rate = bytes_per_s
        self._free = bytes_per_s or 0.0
        self._at_s = now_s

    def take(self, count: int, now_s: float) -> float:
        """Take bytes; give the seconds to wait before they are moved."""
        if self._rate is None:
            return 0.0
        grown = self._free + max(0.0, now_s - self._at_s) * self._rate
        self._free = min(grown, self._rate) - count
        self._at_s = max(now_s, self._at_s)
        return max(0.0, -self._free / self._rate)


class Floor:
    """Tells a store that trickles from one that is slow: some bytes have to come in a while.

    Only time spent waiting for the store counts, so a limit of our own never looks like its fault.
    """

    def __init__(self, least_bytes: int, within_s: float) -> None:
        self._least_bytes, self._within_s = least_bytes, within_s
        self._came, self._waited_s = 0, 0.0

    def holds(self, count: int, waited_s: float) -> bool:
        """Count bytes and how long they took; False when too few came in too long a time."""
        self._came += count
        self._waited_s += waited_s
        if self._came >= self._least_bytes:
            self._came, self._waited_s = 0, 0.0
        return self._waited_s < self._within_s


class Meter:
    """Adds up what is done, and knows how fast it went lately."""

    def __init__(self, total_bytes: int, now_s: float) -> None:
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self._seen: deque[tuple[float, int]] = deque([(now_s, 0)])
        self._moved = 0

    def skip(self, count: int) -> None:
        """Count what was done before: it says nothing of the speed."""
        self.done_bytes += count

    def move(self, count: int, now_s: float) -> None:
        """Count what was just done; negative when it has to be done again."""
        self.done_bytes += count
        self._moved += max(0, count)
        self._seen.append((now_s, self._moved))
        while len(self._seen) > 2 and now_s - self._seen[1][0] > _WINDOW_S:
            self._seen.popleft()

    def bytes_per_s(self, now_s: float) -> float:
        """Give the speed of the last minute."""
        since_s, moved = self._seen[0]
        return (self._moved - moved) / max(now_s - since_s, 1e-3)

    def left_s(self, now_s: float) -> float | None:
        """Say how long the rest takes at this speed; None when nothing moves."""
        left = self.total_bytes - self.done_bytes
        if left <= 0:
            return 0.0
        speed = self.bytes_per_s(now_s)
        return left / speed if speed > 0 else None
