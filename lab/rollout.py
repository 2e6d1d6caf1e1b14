"""Roll a release out in a running lab: where its record is, and how its regions are reached."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
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
from infra.rollout.lease import Holder, Leases, RegionLease, Seen, Time, read_lease
from infra.rollout.ledger import Ledger
from infra.rollout.objects import ClusterObjects
from infra.rollout.process import is_gone, own_process
from infra.rollout.region import SiteRegion
from infra.rollout.shared import SharedRecord
from infra.rollout.site import RegionsSite
from infra.rollout.stack import FileConfig, Stack
from infra.rollout.waiting import Waiter
from infra.settings import Settings, from_config
from infra.stacks import StackRunner
from infra.state.files import FileState
from infra.values import assigned_releases, region_plan
from lab.network import loopback_address
from lab.processes import MARK, process_environ
from lab.rehearsal import Surroundings
from lab.stand_ins import StandIns, questioner
from lab.state import LabState, RegionState, running_state
from lab.toolchain import ensure_tools
from verify.smoke import worker_answers

# Inside the lab's folder, and not beside the fleet file: a record describes the stacks and pods of
# this lab, and is worth nothing once the next one has taken its place.
FOLDER = "rollouts"
RECORD = "*.jsonl"
TIME = Time(clock=time.monotonic, now=lambda: datetime.now(UTC), pause=time.sleep)


@dataclass(frozen=True, kw_only=True)
class LabRollouts:
    """The rollouts of a lab that is up, seen from one working copy of its fleet."""

    fleet: Fleet
    state: LabState
    around: Surroundings
    lab_dir: Path  # work folder of whoever started the lab

    @classmethod
    def of(cls, fleet: Fleet, around: Surroundings, lab_dir: Path | None = None) -> LabRollouts:
        """Find the lab of a fleet; raise LabError when none is up.

        `lab_dir`: the work folder that started it, when it is another one than ours.
        """
        where = lab_dir or around.work_dir
        state = running_state(where, fleet.path)
        if not state.kept:
            raise ConfigError(
                f"{where}: its lab is a rehearsal, which ends by itself. "
                "Wait for it, then start a lab that stays: k3fleet lab up."
            )
        return cls(fleet=fleet, state=state, around=around, lab_dir=where)

    @property
    def home(self) -> Path:
        """Where this working copy keeps what belongs to the lab."""
        if self.lab_dir.resolve() == self.around.work_dir.resolve():
            return self.around.work_dir / "lab"
        return self.around.work_dir / "joined" / self.state.lab_id.partition(" ")[0]

    @property
    def folder(self) -> Path:
        """Where the records are, one file per rollout."""
        return self.home / FOLDER

    def pull(self) -> None:
        """Take over what other working copies have written into the clusters since."""
        for ledger in self._ledgers.values():
            known = {number: journal.count() for number, journal in self.records().items()}
            try:
                records = ledger.newer(known)
            except ApplyError as error:
                self.around.progress.note(str(error))
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
        numbers = sorted(int(path.stem) for path in self.folder.glob(RECORD))
        return {number: self.journal(number) for number in numbers}

    def latest(self) -> Journal | None:
        """Give the record of the latest rollout, wherever it was driven."""
        self.pull()
        found = self.records()
        return found[max(found)] if found else None

    def journal(self, number: int) -> Journal:
        """Give the record of one rollout."""
        me = Holder(
            name=f"{who()}@{socket.gethostname()}/{os.getpid()} rollout {number}",
            process=own_process(),
            is_gone=is_gone,
        )
        leases = {
            name: RegionLease(ledger.objects, me, TIME) for name, ledger in self._ledgers.items()
        }
        say = self.around.progress.note
        shared = SharedRecord(
            number=number,
            ledgers=self._ledgers,
            leases=Leases(leases, say),
            waiter=waiter(lambda: False),
            say=say,
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
                journal.append(started, self.state.regions)
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
                for name in self.state.regions
                for replica, release in assigned_releases(
                    self.fleet, region_plan(plan, name), self._settings[name].options
                ).items()
            },
            releases={**releases, self.fleet.release_id: self.fleet.release},
            sources=self.sources(),
            serials={name: found.options.serial for name, found in self._settings.items()},
        )

    def site(self, started: Started, require_held: Callable[[str], None]) -> RegionsSite:
        """Give the regions of a rollout, ready to be driven."""
        names = {place.region for step in started.steps for place in step.places}
        return RegionsSite(
            started=started,
            regions={name: self._region(name, started.releases) for name in sorted(names)},
            waiter=waiter,
            announce=self.stand_ins.announce,
            say=self.around.progress.note,
            require_held=require_held,
        )

    def stack(self, name: str, sources: Mapping[str, str]) -> Stack:
        """Give the stack of a region, as this working copy has it configured."""
        runner = StackRunner(
            layer="serving",
            settings=replace(self._settings[name], fleet=self.fleet.path),
            work_dir=self.home / "pulumi",
            state=FileState.below(self.lab_dir / "lab" / "pulumi"),
            env=self._env,
            say=self.around.progress.note,
        )
        return Stack(runner=runner, fleet=self.fleet, sources=sources)

    @cached_property
    def _env(self) -> Mapping[str, str]:
        tools = ensure_tools(
            cache_dir=self.around.cache_dir,
            environ=self.around.environ,
            progress=self.around.progress,
        )
        path = f"{tools.bin_dir}:{self.around.environ.get('PATH', '')}"
        return {
            **process_environ(self.around.environ),
            "PATH": path,
            MARK: self.state.lab_id,
        }

    def regions(self) -> Mapping[str, Cluster]:
        """Give the API servers, to look only."""
        return {name: self._cluster(name, region) for name, region in self.state.regions.items()}

    @property
    def stand_ins(self) -> StandIns:
        """What stands for releases in the lab."""
        path = self.around.environ.get("PATH", "")
        return StandIns(fleet=self.fleet, regions=self.state.regions, search_path=path)

    @cached_property
    def _settings(self) -> Mapping[str, Settings]:
        return {
            name: from_config(FileConfig.read(self._config_file(region)))
            for name, region in self.state.regions.items()
        }

    @cached_property
    def _ledgers(self) -> Mapping[str, Ledger]:
        return {name: Ledger(ClusterObjects(region)) for name, region in self.regions().items()}

    def _config_file(self, region: RegionState) -> Path:
        """Find a stack's configuration here; before the first sync only the lab's own is there."""
        own = self.home / "pulumi" / region.stack_config.parent.name / region.stack_config.name
        return own if own.exists() else region.stack_config

    def _region(self, name: str, sources: Mapping[str, str]) -> SiteRegion:
        return site_region(self.fleet, self.regions()[name], self.stack(name, sources))

    def _cluster(self, name: str, region: RegionState) -> Cluster:
        return Cluster(
            region=name,
            kubeconfig=region.kubeconfig,
            namespace=self.state.namespace,
            reach=loopback_address,
        )


def site_region(fleet: Fleet, cluster: Cluster, stack: Stack) -> SiteRegion:
    """Give a region as a rollout, or a drain, sees it."""
    plan = region_plan(make_plan(fleet), cluster.region)
    model = fleet.model.repo

    def ask(url: str, worker: str) -> bool:
        return worker_answers(url, model, worker)

    return SiteRegion(
        cluster=cluster,
        stack=stack,
        racks={replica: rack.id for rack in plan.racks for replica in rack.replica_names},
        ask=ask,
        probe=questioner(model, TIME.now),
    )


def require_over(journal: Journal | None) -> None:
    """Raise ConfigError while a rollout is not over: two would turn each other's replicas."""
    if journal is None or (status := journal.state().status) in OVER:
        return
    raise ConfigError(
        f"{journal.path}: the rollout to {journal.state().started.new} is {status}. "
        "Finish it first: k3fleet rollout resume or abort, or k3fleet rollback."
    )


def who() -> str:
    """Name the user for the record."""
    return getpass.getuser()


def waiter(stop: Callable[[], bool]) -> Waiter:
    """Wait by this machine's clocks."""
    return Waiter(clock=time.monotonic, pause=time.sleep, stop=stop)
