"""Roll a release out in a running lab: where its record is, and how its regions are reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fleet.errors import ConfigError
from fleet.load import Fleet, load_release
from fleet.plan import make_plan
from fleet.release import Release, release_id
from fleet.rollout.begin import Running
from fleet.rollout.record import Started
from fleet.rollout.state import OVER, read_state
from infra.rollout.cluster import Cluster
from infra.rollout.journal import Journal
from infra.rollout.region import SiteRegion
from infra.rollout.site import RegionsSite
from infra.rollout.stack import FileConfig, Stack
from infra.rollout.waiting import Waiter
from infra.settings import Settings, from_config
from infra.stacks import StackRunner
from infra.values import assigned_releases, region_plan
from lab.agent_settings import SETTINGS_FILE, AgentSettings
from lab.engines import mocked_engines
from lab.house_engine import house_engines
from lab.limits import require_rehearsable
from lab.network import loopback_address
from lab.processes import MARK, process_environ
from lab.rehearsal import Surroundings
from lab.state import LabState, RegionState, running_state
from lab.toolchain import ensure_tools
from verify.smoke import worker_answers

# Inside the lab's folder, and not beside the fleet file: a record describes the stacks and pods of
# this lab, and is worth nothing once the next one has taken its place.
FOLDER = Path("lab") / "rollouts"
RECORD = "*.jsonl"


@dataclass(frozen=True, kw_only=True)
class LabRollouts:
    """The rollouts of a lab that is up."""

    fleet: Fleet
    state: LabState
    around: Surroundings

    @classmethod
    def of(cls, fleet: Fleet, around: Surroundings) -> LabRollouts:
        """Find the lab of a fleet; raise LabError when none is up."""
        state = running_state(around.work_dir, fleet.path)
        if not state.kept:
            raise ConfigError(
                f"{around.work_dir}: its lab is a rehearsal, which ends by itself. "
                "Wait for it, then start a lab that stays: k3fleet lab up."
            )
        return cls(fleet=fleet, state=state, around=around)

    @property
    def folder(self) -> Path:
        """Where the records are, one file per rollout."""
        return self.around.work_dir / FOLDER

    def latest(self) -> Journal | None:
        """Give the record of the latest rollout."""
        found = sorted(self.folder.glob(RECORD))
        return Journal(found[-1]) if found else None

    def begin(self, started: Started, holder: Mapping[str, str]) -> Journal:
        """Write the start of a rollout; refuse while another one is not over."""
        with Journal(self.folder / "start").held(holder):
            require_over(self.latest())
            number = len(list(self.folder.glob(RECORD))) + 1
            journal = Journal(self.folder / f"{number:04}.jsonl")
            with journal.held(holder):
                journal.append(started)
        return journal

    def sources(self) -> dict[str, str]:
        """Say where the releases that replicas may run are read from, by id."""
        known = {
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
        )

    def site(self, started: Started) -> RegionsSite:
        """Give the regions of a rollout, ready to be driven."""
        tools = ensure_tools(
            cache_dir=self.around.cache_dir,
            environ=self.around.environ,
            progress=self.around.progress,
        )
        path = f"{tools.bin_dir}:{self.around.environ.get('PATH', '')}"
        env = {
            **process_environ(self.around.environ),
            "PATH": path,
            MARK: self.state.lab_id,
        }
        names = {place.region for step in started.steps for place in step.places}
        return RegionsSite(
            started=started,
            regions={
                name: self._region(name, region, started, env)
                for name, region in self.state.regions.items()
                if name in names
            },
            waiter=_waiter,
            announce=self.announce,
        )

    def regions(self) -> Mapping[str, Cluster]:
        """Give the API servers, to look only."""
        return {name: self._cluster(name, region) for name, region in self.state.regions.items()}

    def announce(self, release: Release) -> None:
        """Tell the lab's node agents what stands for a release: they look when a pod names it."""
        fleet = replace(self.fleet, release=release, release_id=release_id(release))
        require_rehearsable(fleet, self.around.environ.get("PATH", ""))
        for region in self.state.regions.values():
            settings = AgentSettings.read(region.kubeconfig.parent / SETTINGS_FILE)
            told = settings.model_copy(
                update={
                    "engines": settings.engines | mocked_engines(fleet, settings.token_scale),
                    "house_engines": settings.house_engines | house_engines(fleet),
                }
            )
            told.write()

    @cached_property
    def _settings(self) -> Mapping[str, Settings]:
        return {
            name: from_config(FileConfig.read(region.stack_config))
            for name, region in self.state.regions.items()
        }

    def _region(
        self, name: str, region: RegionState, started: Started, env: Mapping[str, str]
    ) -> SiteRegion:
        runner = StackRunner(
            layer="serving",
            settings=self._settings[name],
            work_dir=region.stack_config.parent.parent,
            env=env,
            say=self.around.progress.note,
        )
        plan = region_plan(make_plan(self.fleet), name)
        model = self.fleet.model.repo

        def ask(url: str, worker: str) -> bool:
            return worker_answers(url, model, worker)

        return SiteRegion(
            cluster=self._cluster(name, region),
            stack=Stack(runner=runner, fleet=self.fleet, sources=started.releases),
            racks={replica: rack.id for rack in plan.racks for replica in rack.replica_names},
            ask=ask,
        )

    def _cluster(self, name: str, region: RegionState) -> Cluster:
        return Cluster(
            region=name,
            kubeconfig=region.kubeconfig,
            namespace=self.state.namespace,
            reach=loopback_address,
        )


def require_over(journal: Journal | None) -> None:
    """Raise ConfigError while a rollout is not over: two would turn each other's replicas."""
    if journal is None or (status := read_state(journal.read()).status) in OVER:
        return
    raise ConfigError(
        f"{journal.path}: the rollout to {read_state(journal.read()).started.new} is {status}. "
        "Finish it first: k3fleet rollout resume or abort, or k3fleet rollback."
    )


def _waiter(stop: Callable[[], bool]) -> Waiter:
    return Waiter(clock=time.monotonic, pause=time.sleep, stop=stop)
