"""Model one prefix cache: what it holds of the prompts that were answered.

A prompt is a path: the chain hash of each of its units of tokens, first to last. Using a path uses
all of it, and of what was last used together the deepest goes first; so a cache always holds the
units before one that it holds, and the length of a known prefix can be searched by halves.

A hybrid model also needs a state where it resumes. Such a snapshot is kept at the end of each
prompt, and optionally every so many units of what had to be computed; it is used when it is made
and when a prompt resumes there, so it may go earlier than the units around it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

Path = Sequence[Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """Hold how a cache behaves; sizes and depths in units, None = no limit."""

    snapshots: bool = False
    snapshot_every: int = 0
    """Also a snapshot at each multiple of this; 0 = at prompt ends only."""
    snapshot_cost: int = 0
    """The room one takes, in units of tokens."""
    capacity: int | None = None
    ttl_s: float | None = None
    """Unused for longer, and it is gone."""

    @property
    def forgets(self) -> bool:
        """Tell whether anything ever goes."""
        return self.capacity is not None or self.ttl_s is not None


class _Use:
    """One answered prompt: when, its path, and what was not used again since."""

    __slots__ = ("at_s", "end", "held", "path")

    def __init__(self, at_s: float, path: Path) -> None:
        self.at_s = at_s
        self.path = path
        self.end = len(path)  # the units from here on are gone already
        self.held = 0  # units and snapshots whose last use this is

    def release(self, count: int = 1) -> None:
        """Note that some of them were used again, or are gone; an empty use needs no path."""
        self.held -= count
        if not self.held:
            self.path = ()


class CacheModel:
    """Hold the units and snapshots of one cache, each with its last use."""

    __slots__ = ("_rules", "_size", "_snapshots", "_units", "_uses")

    def __init__(self, rules: CacheRules) -> None:
        self._rules = rules
        self._units: dict[Hashable, _Use | None] = {}
        self._snapshots: dict[Hashable, _Use | None] = {}
        self._uses: OrderedDict[_Use, None] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """Give the number of units held."""
        return len(self._units)

    def known(self, path: Path) -> int:
        """Give the length of the longest prefix held."""
        units = self._units
        return bisect_left(range(len(path)), 1, key=lambda index: path[index] not in units)

    def usable(self, path: Path, most: int) -> int:
        """Give the longest prefix, of `most` units at most, where a prompt can resume."""
        depth = min(self.known(path), most)
        if self._rules.snapshots:
            while depth and path[depth - 1] not in self._snapshots:
                depth -= 1
        return depth

    def store(self, path: Path, units: Path, most: int, now_s: float) -> None:
        """Take a prompt that was answered.

        `units` holds the same as `path`: a path of packed numbers makes a new object each time
        that one is read, and these are kept, so all caches should keep the same.
        """
        if self._rules.forgets:
            self.expire(now_s)
        resumed = self.usable(path, most)
        boundaries = [path[depth - 1] for depth in self._boundaries(path, resumed)]
        if not self._rules.forgets:
            # What comes before the first unknown unit is there already.
            self._units.update(dict.fromkeys(islice(units, self.known(path), None)))
            self._snapshots.update(dict.fromkeys(boundaries))
            return
        use, kept = self._last_use(path, now_s)
        self._use(self._units, islice(units, kept.start), use, 1)
        self._use(self._units, islice(units, kept.stop, None), use, 1)
        self._use(self._snapshots, boundaries, use, self._rules.snapshot_cost)
        if use.held:
            self._uses[use] = None
            self._uses.move_to_end(use)
        self._shrink()

    def expire(self, now_s: float) -> None:
        """Forget what was not used for too long."""
        ttl_s, uses = self._rules.ttl_s, self._uses
        while ttl_s is not None and uses and now_s - next(iter(uses)).at_s > ttl_s:
            use, _ = uses.popitem(last=False)
            while use.held:
                self._drop_one(use)

    def _last_use(self, path: Path, now_s: float) -> tuple[_Use, range]:
        """Give the use of now, and the depths of the units that have it already.

        The turn before used a part of this path only, so its use becomes the one of now, instead
        of each unit's being replaced. What it holds is the deepest part of what is known, since
        nothing before a unit was used longer ago. Snapshots have uses of their own, and forbid it.
        """
        depth = self.known(path)
        before = self._units[path[depth - 1]] if depth else None
        if (
            before is None
            or self._rules.snapshots
            or before.end > depth
            or before.path[before.end - 1] != path[before.end - 1]
        ):
            return _Use(now_s, path), range(0)
        kept = range(depth - before.held, depth)
        before.at_s, before.path, before.end = now_s, path, len(path)
        return before, kept

    def _boundaries(self, path: Path, resumed: int) -> set[int]:
        """Name the depths whose snapshots a prompt uses: made, or resumed at."""
        if not self._rules.snapshots:
            return set()
        every = self._rules.snapshot_every
        made = range((resumed // every + 1) * every, len(path) + 1, every) if every else ()
        return {resumed, len(path), *made} - {0}

    def _use(
        self, held: dict[Hashable, _Use | None], keys: Iterable[Hashable], use: _Use, cost: int
    ) -> None:
        """Make this the last use of some keys; no Python runs per key, since paths are long."""
        fresh = dict.fromkeys(keys, use)
        for before, count in Counter(map(held.get, fresh)).items():
            if before is None:
                self._size += count * cost
            else:
                before.release(count)
        held.update(fresh)
        use.held += len(fresh)

    def _shrink(self) -> None:
        capacity, uses = self._rules.capacity, self._uses
        while capacity is not None and self._size > capacity:
            oldest = next(iter(uses))
            if oldest.held:
                self._drop_one(oldest)
            else:
                uses.popitem(last=False)

    def _drop_one(self, use: _Use) -> None:
        """Forget the deepest that was last used then: a snapshot before the unit it ends with."""
        while True:
            key = use.path[use.end - 1]
            if self._snapshots.get(key) is use:
                del self._snapshots[key]
                self._size -= self._rules.snapshot_cost
                break
            use.end -= 1
            if self._units.get(key) is use:
                del self._units[key]
                self._size -= 1
                break
        use.release()
