"""Model one prefix cache: what it holds of the prompts that were answered.

A prompt is a path: the chain hash of each of its units of tokens, first to last. Using a path uses
all of it, and of what was last used together the deepest goes first; so a cache always holds the
units before one that it holds, and the length of a known prefix can be searched by halves.

A hybrid model also needs a state where it resumes. Such a snapshot is kept at the end of each
prompt, and optionally every so many units of what had to be computed; it is used when it is made
and when a prompt resumes there, so it may go earlier than the units around it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import NamedTuple

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
    """Hold one answered prompt: when, its path, and which units were not used again since.

    Those are one run, from `start` to before `end`: a later prompt uses a path from its first unit
    on, and of what was last used together the deepest goes first.
    """

    __slots__ = ("at_s", "end", "path", "start", "turn")

    def renew(self, turn: int, at_s: float, path: Path) -> None:
        """Let this be the use of a prompt that begins as the one before."""
        self.turn, self.at_s, self.path = turn, at_s, path
        self.start, self.end = 0, len(path)


class _Snapshot(NamedTuple):
    """Hold the last use of a snapshot, and how many units it stands for."""

    turn: int
    at_s: float
    depth: int


class Reach(NamedTuple):
    """Hold how far a prompt finds itself in a cache, in units."""

    known: int
    """The longest prefix held."""
    usable: int
    """The longest one where it can resume."""


class CacheModel:
    """Hold the units and snapshots of one cache, each with its last use."""

    __slots__ = ("_lasting", "_rules", "_size", "_snapshots", "_turn", "_units", "_uses")

    def __init__(self, rules: CacheRules) -> None:
        self._rules = rules
        self._units: dict[Hashable, _Use | None] = {}
        self._uses: OrderedDict[_Use, None] = OrderedDict()
        self._snapshots: OrderedDict[Hashable, _Snapshot] = OrderedDict()
        """The next to go first: by their last use, and of one use the deepest."""
        self._lasting: dict[Hashable, None] = {}
        """Those of a cache that forgets nothing."""
        self._turn = 0
        self._size = 0

    def __len__(self) -> int:
        """Give the number of units held."""
        return len(self._units)

    def known(self, path: Path) -> int:
        """Give the length of the longest prefix held."""
        units, known, unknown = self._units, 0, len(path)
        while known < unknown:
            middle = (known + unknown) // 2
            if path[middle] in units:
                known = middle + 1
            else:
                unknown = middle
        return known

    def reach(self, path: Path, most: int) -> Reach:
        """Tell how much of a path is held, and where, after `most` units at most, it can resume."""
        known = self.known(path)
        depth = min(known, most)
        if depth and self._rules.snapshots:
            # No Python runs per unit: of a prompt that another cache answered, many are looked at.
            kept = self._snapshots if self._rules.forgets else self._lasting
            is_kept = map(kept.__contains__, reversed(path[:depth]))
            depth = next(compress(range(depth, 0, -1), is_kept), 0)
        return Reach(known, depth)

    def store(self, path: Path, packed: Path, most: int, now_s: float) -> None:
        """Take a prompt that was answered.

        `packed` holds the same as `path`, for as long as anything of it is held. The objects of
        `path` are kept too, so all caches should get the same ones.
        """
        if self._rules.forgets:
            self.expire(now_s)
        self._turn += 1
        known, resumed = self.reach(path, most)
        boundaries = self._boundaries(path, resumed)
        if not self._rules.forgets:
            # What comes before the first unknown unit is there already.
            self._units.update(dict.fromkeys(islice(path, known, None)))
            self._lasting.update(dict.fromkeys([path[depth - 1] for depth in boundaries]))
            return
        self._use_units(path, known).renew(self._turn, now_s, packed)
        for depth in boundaries:
            self._use_snapshot(path[depth - 1], _Snapshot(self._turn, now_s, depth))
        self._shrink()

    def expire(self, now_s: float) -> None:
        """Forget what was not used for too long."""
        ttl_s, uses, snapshots = self._rules.ttl_s, self._uses, self._snapshots
        if ttl_s is None:
            return
        while uses and now_s - next(iter(uses)).at_s > ttl_s:
            use = next(iter(uses))
            self._drop_units(use, use.end - use.start)
        while snapshots and now_s - next(iter(snapshots.values())).at_s > ttl_s:
            self._drop_snapshot()

    def _boundaries(self, path: Path, resumed: int) -> list[int]:
        """Name the depths whose snapshots a prompt uses, made or resumed at, the deepest first."""
        if not self._rules.snapshots:
            return []
        every = self._rules.snapshot_every
        made = range((resumed // every + 1) * every, len(path) + 1, every) if every else ()
        return sorted({resumed, len(path), *made} - {0}, reverse=True)

    def _use_snapshot(self, key: Hashable, snapshot: _Snapshot) -> None:
        if key not in self._snapshots:
            self._size += self._rules.snapshot_cost
        self._snapshots[key] = snapshot
        self._snapshots.move_to_end(key)

    def _use_units(self, path: Path, known: int) -> _Use:
        """Put a path's units into one use, the last; no Python runs per unit: paths are long.

        The turn before used a part of this path only, so its use becomes the one of now, and what
        it holds stays: that is the deepest part of what is known.
        """
        use = self._units[path[known - 1]] if known else None
        if use is None or use.end > known:
            use, start = _Use(), known
        else:
            start = use.start
        self._take(path, start)
        self._units.update(dict.fromkeys(islice(path, start), use))
        self._units.update(dict.fromkeys(islice(path, known, None), use))
        self._size += len(path) - known
        if path:
            self._uses[use] = None
            self._uses.move_to_end(use)
        return use

    def _take(self, path: Path, depth: int) -> None:
        """Take the units before a depth out of the uses that have them, run by run."""
        while depth:
            use = self._units[path[depth - 1]]
            assert use is not None  # noqa: S101 - for the type checker
            use.start, depth = depth, use.start
            self._forget_empty(use)

    def _shrink(self) -> None:
        capacity = self._rules.capacity
        while capacity is not None and self._size > capacity:
            use = next(iter(self._uses), None)
            snapshot = next(iter(self._snapshots.values()), None)
            if use is None:
                self._drop_snapshot()
            elif snapshot is None or snapshot.turn > use.turn:
                self._drop_units(use, min(self._size - capacity, use.end - use.start))
            elif snapshot.turn < use.turn or snapshot.depth >= use.end:
                self._drop_snapshot()  # before the unit it ends with
            else:
                deeper = use.end - max(use.start, snapshot.depth)
                self._drop_units(use, min(self._size - capacity, deeper))

    def _drop_units(self, use: _Use, count: int) -> None:
        """Forget the deepest units of a use."""
        for unit in use.path[use.end - count : use.end]:
            del self._units[unit]
        self._size -= count
        use.end -= count
        self._forget_empty(use)

    def _drop_snapshot(self) -> None:
        self._snapshots.popitem(last=False)
        self._size -= self._rules.snapshot_cost

    def _forget_empty(self, use: _Use) -> None:
        """Let go of a use without units, and so of its path."""
        if use.start == use.end:
            del self._uses[use]
