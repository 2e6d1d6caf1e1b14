"""Find the folders of a fleet's weights: the source, each region's bucket, and notes about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.release import moves
from fleet.weights.hub_listing import Listed
from fleet.weights.names import folder_name_fault
from fleet.weights.needs import WeightSet
from fleet.weights_spec import StoreSpec, WeightsSpec
from infra.rollout.lease import Holder, Time
from infra.weights.lock import BucketLock
from infra.weights.notes_keeper import NotesKeeper
from infra.weights.source import Expected, Source
from infra.weights.store import Store, connect
from infra.weights.work import FILES_AT_ONCE, Limits

FOLDER = "weights"  # of the work folder


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the weights of one fleet are, seen from one working copy."""

    fleet: Fleet
    work_dir: Path
    time: Time
    me: Holder
    limits: Limits
    listed: Mapping[str, Listed] | None = None  # what the hub says of the model's revision
    say: Callable[[str], None] = lambda _line: None
    _clients: dict[StoreSpec, Any] = field(default_factory=dict)

    @cached_property
    def spec(self) -> WeightsSpec:
        """The section of the fleet file; ConfigError when there is none."""
        if self.fleet.spec.weights is None:
            raise ConfigError(
                f"{self.fleet.path}: weights: not set. "
                "Name the source and each region's bucket; docs/weights.md has an example."
            )
        return self.fleet.spec.weights

    def regions(self, asked: tuple[str, ...] = ()) -> list[str]:
        """Name the regions that were asked for, or all that have a bucket."""
        for name in asked:
            if name not in self.spec.regions:
                known = ", ".join(self.spec.regions)
                raise ConfigError(
                    f"--region {name}: has no bucket under `weights`. Known: {known}."
                )
        return list(asked or self.spec.regions)

    def source(self) -> Store:
        """Give the source's folder."""
        return self._store(self.spec.source)

    def region(self, name: str) -> Store:
        """Give a region's folder."""
        return self._store(self.spec.regions[name])

    def source_of(self, weights: WeightSet) -> Source:
        """Give the folder of a revision at the source."""
        store = self.source()
        is_model = weights.repo == self.fleet.model.repo
        expected = Expected(pinned=self.pinned(weights), listed=self.listed if is_model else None)
        keeper = self.keeper("source", store, weights.revision)
        return Source(store, weights, keeper, expected)

    def pinned(self, weights: WeightSet) -> str | None:
        """Give the digest that a revision's manifest must have, if the fleet file says."""
        return self.spec.manifests.get(weights.revision)

    def keeper(self, name: str, store: Store, revision: str) -> NotesKeeper:
        """Open the notes of a revision in a folder."""
        file = self.work_dir / FOLDER / f"{name}-{revision}.json"
        return NotesKeeper(store, revision, file, self.say)

    def lock(self, store: Store) -> BucketLock:
        """Give the lock of a folder."""
        return BucketLock(store, self.me, self.time, self.say)

    def _store(self, spec: StoreSpec) -> Store:
        if spec not in self._clients:
            # Threads that send parts, that read back, and one that renews the lock.
            self._clients[spec] = connect(spec, self.limits.concurrency + FILES_AT_ONCE + 1)
        return Store(spec, self._clients[spec], self.time.clock)


def check_revisions(needed: Mapping[WeightSet, tuple[str, ...]]) -> None:
    """Raise ConfigError for a revision that cannot name a folder."""
    for weights, names in needed.items():
        if fault := folder_name_fault(weights.revision):
            raise ConfigError(
                f"release {names[0]}: its revision {fault}. Give the commit of {weights.repo}."
            )
        if moves(weights.revision):
            raise ConfigError(
                f"release {names[0]}: revision {weights.revision} of {weights.repo} is a name that "
                "moves: a bucket keeps one content for ever. Give the commit."
            )
