"""A fleet of two regions whose rollout several working copies drive, one after the other."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rollout_objects import FakeObjects, FakeTime, holder
from rollout_world import KilledError

from fleet.rollout.record import Entry
from infra.rollout.journal import Journal
from infra.rollout.lease import Leases, RegionLease
from infra.rollout.ledger import Ledger
from infra.rollout.shared import SharedRecord
from infra.rollout.waiting import Waiter

ME = {"pid": "1"}


@dataclass
class Life:
    """A process that dies after so many touches of the world; what is dead touches nothing."""

    left: int = sys.maxsize
    touches: int = 0

    def touch(self) -> None:
        self.touches += 1
        if self.touches > self.left:
            raise KilledError


class Fleet:
    """Regions a and b, and as many working copies as there are folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = FakeTime()
        self.regions = {name: FakeObjects(name) for name in ("a", "b")}
        self.said: list[str] = []
        self.life = Life()
        for objects in self.regions.values():
            objects.touch = self._touch

    def copy(self, who: str, *gone: str) -> Journal:
        time = self.time.of()
        me = holder(who, gone=tuple(f"process of {name}" for name in gone))
        leases = {n: RegionLease(o, me, time) for n, o in self.regions.items()}
        shared = SharedRecord(
            number=1,
            ledgers={name: Ledger(objects) for name, objects in self.regions.items()},
            leases=Leases(leases, self.said.append),
            waiter=Waiter(clock=time.clock, pause=time.pause, stop=lambda: False),
            say=self.said.append,
        )
        return Journal(self.folder / who / "0001.jsonl", shared)

    def _touch(self) -> None:
        self.life.touch()  # of whoever lives now

    def stored(self, region: str) -> tuple[Entry, ...]:
        return Ledger(self.regions[region]).read(1).entries
