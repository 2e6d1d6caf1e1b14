"""Split the sessions of a test between its processes, so that together they play one load.

Closed loop: process i of n plays sessions i, i+n, i+2n… One that joins later has numbers of its
own, far above. Open loop: every process knows all arrivals, and arrival k is of process k mod n;
when the processes change, so does n, from one moment on for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_LATE = 10_000_000
"""Sessions apart of processes that joined later: more than any test plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Hold which session numbers a process plays: index, index+count, index+2*count…"""

    index: int = 0
    count: int = 1

    @classmethod
    def late(cls, joined: int) -> Numbers:
        """Give the numbers of the process that joined as the `joined`-th after the start."""
        return cls(index=_LATE * joined, count=1)


@dataclass(slots=True)
class Share:
    """Say which arrivals of an open loop belong to this process."""

    me: str
    _from: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)

    def split(self, members: Sequence[str], from_s: float) -> None:
        """Share arrivals that are due from this time on between these processes."""
        self._from = [entry for entry in self._from if entry[0] < from_s]
        self._from.append((from_s, tuple(members)))

    def is_mine(self, number: int, due_s: float) -> bool:
        """Tell whether this process makes an arrival."""
        members: tuple[str, ...] = ()
        for from_s, some in self._from:
            if due_s >= from_s:
                members = some
        return bool(members) and members[number % len(members)] == self.me
