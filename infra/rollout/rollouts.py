"""Keep the rollouts of a fleet: their records, what runs, and the regions to drive."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fleet.errors import ApplyError, BusyError, ConfigError
from fleet.load import Fleet, load_release
from fleet.plan import make_plan
from fleet.release import release_id
from fleet.rollout.begin import Running
from fleet.rollout.record import Started
from fleet.rollout.state import OVER
from infra.rollout.cluster import Cluster
from infra.rollout.journal import Journal
from infra.rollout.lease import Holder, Leases, RegionLease, Seen, read_lease
from infra.rollout.ledger import Ledger
from infra.rollout.machine import TIME, named, waiter
from infra.rollout.objects import ClusterObjects
from infra.rollout.process import is_gone, own_process
from infra.rollout.region import Questions, SiteRegion
from infra.rollout.shared import SharedRecord
from infra.rollout.site import RegionsSite
from infra.rollout.stack import Stack
from infra.rollout.venue import Venue
from infra.settings import Settings
from infra.values import assigned_releases, region_plan

FOLDER = "rollouts"
RECORD = "*.jsonl"
NUMBER = re.compile(r"[0-9]{4,9}")  # what people put beside the records is none


@dataclass(frozen=True, kw_only=True)
class Rollouts:
    """The rollouts of a fleet, seen from one working copy of it."""

    venue: Venue

    @property
    def fleet(self) -> Fleet:
        """The fleet, as its file is here."""
        return self.venue.fleet

    @property
    def folder(self) -> Path:
        """Where the records are, one file per rollout."""
        return self.venue.home / FOLDER

    def pull(self) -> None:
        """Take over what other working copies have written into the clusters since."""
        for ledger in self._ledgers.values():
            known = {number: journal.count() for number, journal in self.records().items()}
            try:
                records = ledger.newer(known)
            except ApplyError as error:
                self.venue.note(str(error))
                continue
            for number, stored in records.items():
                self.journal(number).take(stored.entries, {"pid": str(os.getpid())})

    def drivers(self) -> tuple[Seen, ...]:
        """Say who drives in which region now; one that is out of reach is left out."""
        found = []
        for ledger in self._ledgers.values():
            with suppress(ApplyError):
                found.append(read_lease(ledger.objects, TIME.now()))
        return tuple(seen for seen in found if seen)

    def records(self) -> Mapping[int, Journal]:
        """Give the records of all rollouts by number, as this working copy has them."""
        names = [path.stem for path in self.folder.glob(RECORD) if NUMBER.fullmatch(path.stem)]
        found = {number: self.journal(number) for number in sorted(map(int, names))}
        return {number: journal for number, journal in found.items() if journal.begun()}

    def latest(self) -> Journal | None:
        """Give the record of the latest rollout, wherever it was driven."""
        self.pull()
        found = self.records()
        return found[max(found)] if found else None

    def journal(self, number: int) -> Journal:
        """Give the record of one rollout."""
        me = Holder(name=named(f"rollout {number}"), process=own_process(), is_gone=is_gone)
        leases = {
            name: RegionLease(ledger.objects, me, TIME) for name, ledger in self._ledgers.items()
        }
        shared = SharedRecord(
            number=number,
            ledgers=self._ledgers,
            leases=Leases(leases, self.venue.note),
            waiter=waiter(lambda: False),
            say=self.venue.note,
        )
        return Journal(self.folder / f"{number:04}.jsonl", shared if self._ledgers else None)

    def begin(self, started: Started, holder: Mapping[str, str], *, take_over: bool) -> Journal:
        """Write the start of a rollout; refuse while another one is not over."""
        with Journal(self.folder / "start").held(holder):
            require_over(self.latest())
            journal = self.journal(max(self.records(), default=0) + 1)
            with journal.held(holder, take_over=take_over):
                if journal.read():
                    raise BusyError(
                        f"{journal.path}: somebody else has just started this rollout. "
                        "See `k3fleet rollout status`, then start again."
                    )
                journal.append(started, self.regions)
            for ledger in self._ledgers.values():
                ledger.forget_old()
        return journal

    def sources(self) -> dict[str, str]:
        """Say where the releases that replicas may run are read from, by id."""
        known: dict[str, str] = {}
        for journal in self.records().values():
            known |= journal.state().started.releases
        known |= {
            release_id(load_release(name, beside=self.fleet.path)): name
            for settings in self._settings.values()
            for name in settings.releases
        }
        return {**known, self.fleet.release_id: self.fleet.spec.release}

    def running(self) -> Running:
        """Say what the replicas of the fleet are to run, and what that is."""
        releases = {
            id_: release
            for settings in self._settings.values()
            for id_, release in settings.options.releases.items()
        }
        plan = make_plan(self.fleet)
        return Running(
            assigned={
                replica: release
                for name, settings in self._settings.items()
                for replica, release in assigned_releases(
                    self.fleet, region_plan(plan, name), settings.options
                ).items()
            },
            releases={**releases, self.fleet.release_id: self.fleet.release},
            sources=self.sources(),
            serials={name: found.options.serial for name, found in self._settings.items()},
            following={
                name: found.options.shared or self.fleet.release_id
                for name, found in self._settings.items()
            },
        )

    def site(self, started: Started, require_held: Callable[[str], None]) -> RegionsSite:
        """Give the regions of a rollout, ready to be driven."""
        return RegionsSite(
            started=started,
            regions={name: self._region(name, started.releases) for name in touched(started)},
            waiter=waiter,
            announce=self.venue.announce,
            say=self.venue.note,
            require_held=require_held,
        )

    def stack(self, name: str, sources: Mapping[str, str]) -> Stack:
        """Give the stack of a region, as this working copy has it configured."""
        return Stack(runner=self.venue.runner(name), fleet=self.fleet, sources=sources)

    @cached_property
    def regions(self) -> Mapping[str, Cluster]:
        """The API servers, to look only."""
        return self.venue.clusters()

    @cached_property
    def _settings(self) -> Mapping[str, Settings]:
        return {name: self.venue.settings(name) for name in self.regions}

    @cached_property
    def _ledgers(self) -> Mapping[str, Ledger]:
        return {name: Ledger(ClusterObjects(cluster)) for name, cluster in self.regions.items()}

    def _region(self, name: str, sources: Mapping[str, str]) -> SiteRegion:
        stack = self.stack(name, sources)
        return site_region(self.fleet, self.regions[name], stack, self.venue.questions)


def site_region(fleet: Fleet, cluster: Cluster, stack: Stack, questions: Questions) -> SiteRegion:
    """Give a region as a rollout, or a drain, sees it."""
    plan = region_plan(make_plan(fleet), cluster.region)
    return SiteRegion(
        cluster=cluster,
        stack=stack,
        racks={replica: rack.id for rack in plan.racks for replica in rack.replica_names},
        questions=questions,
    )


def touched(started: Started) -> tuple[str, ...]:
    """Name the regions that a rollout touches."""
    return tuple(sorted({name for step in started.steps for name in step.regions}))


def require_over(journal: Journal | None) -> None:
    """Raise ConfigError while a rollout is not over: two would turn each other's replicas."""
    if journal is None or (status := journal.state().status) in OVER:
        return
    raise ConfigError(
        f"{journal.path}: the rollout to {journal.state().started.new} is {status}. "
        "Finish it first: k3fleet rollout resume or abort, or k3fleet rollback."
    )
