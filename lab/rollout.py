"""Let the rollouts of a fleet be driven in a lab that is up."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.release import Release
from infra.file_config import FileConfig
from infra.rollout.cluster import Cluster
from infra.rollout.machine import TIME
from infra.rollout.region import Questions
from infra.settings import Settings, from_config
from infra.stacks import StackRunner
from infra.state.files import FileState
from lab.faults import Fault
from lab.mounts import MOUNTED_S
from lab.network import loopback_address
from lab.processes import MARK, process_environ
from lab.questions import mocked_questions
from lab.rehearsal import Surroundings
from lab.stand_ins import StandIns
from lab.state import LabState, RegionState, running_state
from lab.toolchain import ensure_tools

# Until Envoy sends to a new cluster: it has looked its name up and checked its frontends' health.
ENVOY_S = 6.0


@dataclass(frozen=True, kw_only=True)
class LabVenue:
    """A lab that is up, seen from one working copy of its fleet."""

    fleet: Fleet
    state: LabState
    around: Surroundings
    lab_dir: Path  # work folder of whoever started the lab

    @classmethod
    def of(cls, fleet: Fleet, around: Surroundings, lab_dir: Path | None = None) -> LabVenue:
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
    def said(self) -> str:
        """Which lab this is."""
        return f"the lab of {self.lab_dir}"

    @property
    def home(self) -> Path:
        """Where this working copy keeps what belongs to the lab.

        Inside the lab's folder, and not beside the fleet file: a record describes the stacks and
        pods of this lab, and is worth nothing once the next one has taken its place.
        """
        if self.lab_dir.resolve() == self.around.work_dir.resolve():
            return self.around.work_dir / "lab"
        return self.around.work_dir / "joined" / self.state.lab_id.partition(" ")[0]

    @property
    def questions(self) -> Questions:
        """How the lab's mocked workers are asked."""
        return mocked_questions(self.fleet.model.repo, TIME.now)

    def clusters(self) -> Mapping[str, Cluster]:
        """Give the API servers of the lab."""
        return {
            name: Cluster(
                region=name,
                kubeconfig=region.kubeconfig,
                namespace=self.state.namespace,
                reach=loopback_address,
                heard_s=MOUNTED_S + ENVOY_S,
            )
            for name, region in self.state.regions.items()
        }

    def settings(self, region: str) -> Settings:
        """Read what this working copy tells a stack; before the first sync, what the lab does."""
        return from_config(FileConfig.read(self._config_file(self.state.regions[region])))

    def runner(self, region: str) -> StackRunner:
        """Give the stack of a region, with the lab's state and tools."""
        return StackRunner(
            layer="serving",
            settings=replace(self.settings(region), fleet=self.fleet.path),
            work_dir=self.home / "pulumi",
            state=FileState.below(self.lab_dir / "lab" / "pulumi"),
            env=self._env,
            say=self.note,
        )

    def require_right(self, region: str) -> None:
        """Find nothing to check: a lab's clusters are nobody else's."""

    def claimed(self, region: str) -> AbstractContextManager[None]:
        """Keep nobody away: nothing else works on a lab's stacks."""
        return nullcontext()

    def announce(self, release: Release, /) -> None:
        """Tell the lab what it mocks."""
        self._stand_ins.announce(release)

    def spoil(self, release: Release, fault: str | None) -> None:
        """Say what is wrong with the stand-in of a release, or that nothing is."""
        self._stand_ins.spoil(release, cast(Fault | None, fault))

    def note(self, text: str, /) -> None:
        """Say something that has to stay visible."""
        self.around.progress.note(text)

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

    @property
    def _stand_ins(self) -> StandIns:
        path = self.around.environ.get("PATH", "")
        return StandIns(fleet=self.fleet, regions=self.state.regions, search_path=path)

    def _config_file(self, region: RegionState) -> Path:
        own = self.home / "pulumi" / region.stack_config.parent.name / region.stack_config.name
        return own if own.exists() else region.stack_config
