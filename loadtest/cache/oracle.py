"""Tell how many prompt tokens the prefix caches could have served.

Attainable = the longest prefix that this run already sent and saw completed in the same region,
cut as the engines cut it: in whole units, or at a state that was kept. One token always has to be
computed, so with units of U the identical prompt of P tokens again can have floor((P-1)/U)*U, and
the next turn of a conversation floor(P_before/U)*U: exact for Dynamo's mocker, checked against its
`cached_tokens`.

A region's figure has no capacity: it is the ceiling for any placement of sessions. A replica's
has, and is what the router can choose from. Generated tokens never count: a mocked engine answers
at random and the history carries our own scripted text instead of the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fleet.errors import ConfigError
from loadtest.cache.cache_model import CacheModel, CacheRules, Path
from loadtest.prompt.prompts import Prompt


class OracleRules(BaseModel):
    """Hold how the release's engines reuse prefixes; None = as the block size says, or no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: int | None = Field(default=None, ge=1)
    """Tokens that are reused together: a multiple of the block size."""
    reuse: Literal["blocks", "snapshots"] = "blocks"
    """Resume after any unit, or only where a state was kept (prompt ends)."""
    snapshot_every: int = Field(default=0, ge=0)
    """Tokens between two more kept states; 0 = prompt ends only."""
    snapshot_cost_blocks: int = Field(default=0, ge=0)
    """Room of a kept state, in units."""
    capacity_blocks: int | None = Field(default=None, ge=1)
    """Units that a replica holds, least recently used first out."""
    ttl_s: float | None = Field(default=None, gt=0)

    def cache_rules(self, unit: int) -> CacheRules:
        """Give them in units."""
        return CacheRules(
            snapshots=self.reuse == "snapshots",
            snapshot_every=self.snapshot_every // unit,
            snapshot_cost=self.snapshot_cost_blocks,
            capacity=self.capacity_blocks,
            ttl_s=self.ttl_s,
        )

    def checked_unit(self, block_size: int) -> int:
        """Give the unit in tokens; raises ConfigError when the sizes do not fit each other."""
        unit = self.unit or block_size
        if unit % block_size:
            raise ConfigError(
                f"oracle.unit: {unit} is no multiple of block_size {block_size}. "
                "Give a multiple, or leave it out."
            )
        if self.snapshot_every % unit:
            raise ConfigError(
                f"oracle.snapshot_every: {self.snapshot_every} is no multiple of {unit}, the unit "
                "of reuse. Give a multiple, or 0."
            )
        return unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainable:
    """Hold the tokens of one prompt that caches could serve when it was sent."""

    region: int
    everywhere: int
    """In the region that could serve most: what one cache for all regions would give."""
    replicas: Mapping[str, int]
    """By worker of the region; those that could serve nothing are left out."""

    @property
    def best(self) -> int:
        """Give the most that one replica could serve."""
        return max(self.replicas.values(), default=0)

    def selected(self, worker: str) -> int:
        """Give what the worker that was chosen could serve."""
        return self.replicas.get(worker, 0)


@dataclass(slots=True)
class _Region:
    """Hold the caches of a region's replicas, and of the region where those forget."""

    whole: CacheModel | None
    replicas: dict[str | None, CacheModel] = field(default_factory=dict)
    """By worker; None: an answer did not say whose it was."""
    waiting: dict[Hashable, int] = field(default_factory=dict)
    """How often a unit that nobody had answered yet was sent."""

    def caches(self) -> list[CacheModel]:
        """Give the caches of which the best is the region's."""
        return [self.whole] if self.whole is not None else list(self.replicas.values())


class CacheOracle:
    """Remember what was sent and answered, by region and replica."""

    def __init__(
        self, block_size: int, rules: OracleRules | None = None, clock: Callable[[], float] = float
    ) -> None:
        rules = rules or OracleRules()
        self._unit = rules.checked_unit(block_size)
        self._stride = self._unit // block_size
        self._rules = rules.cache_rules(self._unit)
        self._clock = clock
        self._regions: dict[str, _Region] = {}

    def send(self, region: str, prompt: Prompt) -> Attainable:
        """Note that the prompt leaves now; tell what could be served of it."""
        path, most = list(self._path(prompt)), self._most(prompt)
        here = self._region(region)
        self._expire()
        reached = {worker: cache.reach(path, most) for worker, cache in here.replicas.items()}
        whole = [here.whole.reach(path, most)] if here.whole is not None else list(reached.values())
        for unit in islice(path, max((reach.known for reach in whole), default=0), None):
            here.waiting[unit] = here.waiting.get(unit, 0) + 1
        best = max((reach.usable for reach in whole), default=0)
        elsewhere = (
            cache.reach(path, most).usable
            for there in self._regions.values()
            if there is not here
            for cache in there.caches()
        )
        return Attainable(
            region=best * self._unit,
            everywhere=max((best, *elsewhere)) * self._unit,
            replicas={
                worker: reach.usable * self._unit
                for worker, reach in reached.items()
                if worker is not None and reach.usable
            },
        )

    def complete(self, region: str, prompt: Prompt, worker: str | None = None) -> None:
        """Note that the prompt was answered, and by whom, so that it may be reused."""
        packed, most, now_s = self._path(prompt), self._most(prompt), self._clock()
        path = list(packed)
        here = self._region(region)
        # A unit that some cache holds waits no more since it came there.
        known = max((cache.known(path) for cache in here.caches()), default=0)
        for unit in islice(path, known, None) if here.waiting else ():
            here.waiting.pop(unit, None)
        if here.whole is not None:
            here.whole.store(path, packed, most, now_s)
        if here.whole is None or worker is not None:
            if worker not in here.replicas:
                here.replicas[worker] = CacheModel(self._rules)
            here.replicas[worker].store(path, packed, most, now_s)

    def in_flight(self, region: str, prompt: Prompt) -> int:
        """Tell the prefix that others sent too, answered or not.

        An engine may share the blocks of a request that still runs. Nobody can promise that, so
        it is not attainable; but when the server reports more than attainable, up to this many
        tokens have an explanation and the oracle is not wrong.
        """
        path, here = self._path(prompt), self._region(region)
        self._expire()
        depth = max((cache.known(path) for cache in here.caches()), default=0)
        for unit in islice(path, depth, None):
            if here.waiting.get(unit, 0) < 2:  # one of them is our own
                break
            depth += 1
        return min(depth, self._most(prompt)) * self._unit

    def _region(self, name: str) -> _Region:
        if name not in self._regions:
            # Without eviction a region holds just what its replicas hold together.
            unlimited = replace(self._rules, capacity=None)
            whole = CacheModel(unlimited) if self._rules.forgets else None
            self._regions[name] = _Region(whole)
        return self._regions[name]

    def _expire(self) -> None:
        if self._rules.ttl_s is None:
            return
        now_s = self._clock()
        for region in self._regions.values():
            for cache in (*region.replicas.values(), *region.caches()):
                cache.expire(now_s)

    def _path(self, prompt: Prompt) -> Path:
        if self._stride == 1:
            return prompt.blocks
        return tuple(islice(prompt.blocks, self._stride - 1, None, self._stride))

    def _most(self, prompt: Prompt) -> int:
        return max(0, prompt.token_count - 1) // self._unit
