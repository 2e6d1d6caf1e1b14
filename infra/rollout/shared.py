"""Share a rollout's record between working copies: one copy in each region of the fleet.

Only who holds the regions' leases writes. A copy that was out of reach is behind: the longest one
counts, and the others are its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from fleet.errors import ApplyError
from fleet.rollout.record import Asked, Entry
from infra.rollout.lease import Leases
from infra.rollout.ledger import Ledger, Packed, Packer, Stored
from infra.rollout.waiting import AWAY_S, Waiter

LOOK_S = 1.0  # requests are looked for in every wait; so often the API servers are asked


@dataclass(kw_only=True)
class SharedRecord:
    """One rollout's record in the clusters."""

    number: int
    ledgers: Mapping[str, Ledger]
    leases: Leases
    waiter: Waiter
    say: Callable[[str], None] = lambda _text: None
    _known: dict[str, Stored] = field(default_factory=dict)
    _packer: Packer = field(default_factory=Packer)
    _keys: dict[str, list[str]] = field(default_factory=dict)  # of requests, by region
    _asked: tuple[float, list[Asked]] | None = None  # when they were read, and what there was

    @contextmanager
    def held(self, *, take_over: bool = False) -> Iterator[None]:
        """Be the only one who drives and writes."""
        with self.leases.held(take_over=take_over):
            self._known.clear()
            self._packer = Packer()
            yield

    def require(self, region: str) -> None:
        """Raise where a region may not be touched by us now."""
        self.leases.require(region)

    def longest(self) -> tuple[Entry, ...]:
        """Read the record from where it is the furthest."""
        found: tuple[Entry, ...] = ()
        for name, ledger in self.ledgers.items():
            with suppress(ApplyError):
                self._known[name] = ledger.read(self.number)
                found = max(found, self._known[name].entries, key=len)
        return found

    def write(self, entries: Sequence[Entry], needed: Collection[str]) -> None:
        """Write the record to all regions; it has to reach those that are needed, or any one.

        Raises ApplyError when it does not for longer than one can wait, and BusyError when
        somebody else writes.
        """
        record = self._packer.pack(entries)
        missing = self._write(record)
        if self._enough(missing, needed):
            return
        self.say(f"{'; '.join(missing.values())} The rollout waits for it.")

        def still() -> str:
            missing.clear()
            missing.update(self._write(record))
            return "" if self._enough(missing, needed) else "; ".join(missing.values())

        waited = self.waiter.until(still, AWAY_S)
        if waited.how != "held":
            raise ApplyError(waited.missing)
        self.say("the record is written again; the rollout goes on")

    def _write(self, record: Packed) -> dict[str, str]:
        """Try it once; give the regions that it did not reach, with the reason."""
        missing = {}
        for name, ledger in self.ledgers.items():
            try:
                self.leases.require(name)
                before = self._known.get(name) or ledger.read(self.number)
                self._known[name] = ledger.write(self.number, before, record)
            except ApplyError as error:
                missing[name] = str(error)
        return missing

    def _enough(self, missing: Mapping[str, str], needed: Collection[str]) -> bool:
        return len(missing) < len(self.ledgers) and not set(missing) & set(needed)

    def ask(self, asked: Asked) -> None:
        """Leave a request where the driver looks: in any region that can be reached."""
        errors = []
        for ledger in self.ledgers.values():
            try:
                ledger.ask(self.number, asked)
            except ApplyError as error:
                errors.append(error)
            else:
                return
        raise errors[0]

    def requests(self) -> list[Asked]:
        """Read what waits in all regions; one out of reach is asked the next time."""
        if self._asked and self.waiter.clock() < self._asked[0] + LOOK_S:
            return self._asked[1]
        found: list[Asked] = []
        for name, ledger in self.ledgers.items():
            with suppress(ApplyError):
                waiting = ledger.requests(self.number)
                self._keys[name] = list(waiting)
                found += waiting.values()
        found.sort(key=lambda asked: asked.at_s)
        self._asked = (self.waiter.clock(), found)
        return found

    def forget_requests(self) -> None:
        """Remove what `requests` gave last, once it is in the record."""
        for name, keys in self._keys.items():
            with suppress(ApplyError):
                self.ledgers[name].forget(keys)
        self._keys.clear()
        self._asked = None
