"""Bring a fleet's lab up on this machine, and down again.

One real control plane per region: two of them, with all nodes Ready, take 9 s and 0.8 GiB on
2 cores, so there is no reason for the weaker separation of a namespace per region.
"""

from __future__ import annotations

import shlex
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from fleet.errors import LabError
from fleet.load import Fleet
from fleet.plan import Plan
from infra.options import Layer
from infra.settings import Settings as StackSettings
from infra.stacks import StackRunner, UpResult, run_together
from lab.agent_settings import AgentSettings
from lab.control_plane import ControlPlane
from lab.engines import SPEED_TABLE, mocked_engines, write_speed_table
from lab.faults import write_scripts
from lab.house_engine import house_engines
from lab.network import RegionNetwork
from lab.packing_check import Packing, check_region, merge
from lab.parallel import for_each
from lab.pods import PodView
from lab.processes import MARK, Launcher, Service, end_marked, lab_mark, process_environ
from lab.region import LabRegion
from lab.reservation import reserve_network
from lab.state import LabState, RegionState, forget_state, write_state
from lab.steps import Step
from lab.toolchain import Toolchain
from loadtest.settings import SETTINGS_FILE, LoadSettings, write_settings
from verify.smoke import serves

READY_TIMEOUT_S = 300.0
STARTS = 3  # of one process, before it is given up
SCHEDULE_TIMEOUT_S = 90.0
GATEWAY_TIMEOUT_S = 30.0  # of a gateway that is Ready
LOAD_FOLDER = "load"
POLL_S = 0.5  # listing all pods of two regions takes 30 ms of CPU
LAYERS: tuple[Layer, ...] = ("platform", "serving")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """What a lab is made of."""

    fleet: Fleet
    plan: Plan
    toolchain: Toolchain
    work_dir: Path
    model_dir: Path
    token_scale: int
    environ: Mapping[str, str]

    @property
    def model_name(self) -> str:
        """Name under which the model is served, in the lab as in a cluster."""
        return self.fleet.model.repo


class Lab:
    """A lab that this process starts; whoever starts it also ends it, or keeps it."""

    def __init__(self, settings: LabSettings, clock: Callable[[], datetime]) -> None:
        self.settings = settings
        self.id = lab_mark(uuid.uuid4().hex, settings.work_dir)
        self._now = clock
        self._folder = settings.work_dir / "lab"
        logs = self._folder / "logs"
        self._launcher = Launcher(
            lab_id=self.id, log_dir=logs, environ=process_environ(settings.environ)
        )
        self._jobs = Launcher(
            lab_id=self.id, log_dir=logs, environ=process_environ(settings.environ)
        )
        number, self._reservation = reserve_network(zlib.crc32(str(self._folder).encode()))
        self.regions = tuple(
            self._region(index, number) for index in range(len(settings.fleet.spec.regions))
        )

    @property
    def log_dir(self) -> Path:
        """Where the logs of the lab's own processes are."""
        return self._launcher.log_dir

    @property
    def load_dir(self) -> Path:
        """Where traffic that is started by hand writes its results."""
        return self._folder / LOAD_FOLDER

    @property
    def targets(self) -> dict[str, str]:
        """Region name → gateway URL."""
        return {region.name: region.gateway_url for region in self.regions}

    def start_cluster(self) -> None:
        """Start every region's control plane, nodes and node agent."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        write_speed_table(self._folder / SPEED_TABLE, self.settings.token_scale)
        write_scripts(self._folder, self.settings.model_dir)
        for region in self.regions:
            region.check_ports()
        self.write_state(kept=False)
        for region in self.regions:
            region.start(self._now())
        for_each(self.regions, LabRegion.make_ready, cancel=self._cancel)
        for region in self.regions:
            region.start_agent(self._agent_settings(region))

    def provision(self) -> tuple[UpResult, ...]:
        """Run `pulumi up` of both layers, all regions at once; results by layer and region."""
        results: list[UpResult] = []
        for layer in LAYERS:
            results += run_together([self.stack(region, layer) for region in self.regions], "up")
        return tuple(results)

    def stack(self, region: LabRegion, layer: Layer) -> StackRunner:
        """Return the runner of one layer of a region."""
        toolchain = self.settings.toolchain
        path = f"{toolchain.bin_dir}:{self.settings.environ.get('PATH', '')}"
        return StackRunner(
            layer=layer,
            settings=StackSettings(
                fleet=self.settings.fleet.path.resolve(),
                region=region.name,
                kubeconfig=region.plane.kubeconfig,
                options=region.options({r.name: r.gateway_address for r in self.regions}),
            ),
            work_dir=self._folder / "pulumi",
            env={**process_environ(self.settings.environ), "PATH": path, MARK: self.id},
        )

    def wait_scheduled(self) -> Packing:
        """Wait until every engine pod has a node or time is over; judge what is there.

        What was complete is judged, and not a later look: a replica may be made anew meanwhile.
        """
        seen: list[tuple[PodView, ...]] = []

        def scheduled() -> bool:
            seen[:] = [region.pods() for region in self.regions]
            return self._all_placed(pod for pods in seen for pod in pods)

        try:
            self._launcher.wait(
                "pods scheduled", scheduled, timeout_s=SCHEDULE_TIMEOUT_S, every_s=POLL_S
            )
        except LabError:
            self._launcher.check()  # a dead process is an error, a pod without node a finding
            self._require_staying()
        return merge(
            check_region(plan, region.nodes(), pods)
            for plan, region, pods in zip(
                self.settings.plan.regions, self.regions, seen, strict=True
            )
        )

    def wait_serving(self, step: Step) -> None:
        """Wait until every pod is Ready and every gateway answers a chat."""
        wanted = self.settings.plan.totals.replicas
        waiting: list[str] = []

        def ready() -> bool:
            self._require_staying()
            pods = [pod for region in self.regions for pod in region.pods()]
            count = sum(pod.ready for pod in pods if pod.is_leader)
            waiting[:] = sorted(pod.name for pod in pods if not pod.ready)
            step.update(f"{count} of {wanted} replicas Ready")
            return count == wanted and not waiting

        try:
            self._launcher.wait("pods Ready", ready, timeout_s=READY_TIMEOUT_S, every_s=POLL_S)
        except LabError as error:
            raise LabError(f"{error} Not Ready: {', '.join(waiting) or 'none'}.") from error
        for name, url in self.targets.items():
            # Envoy's threads learn of a healthy frontend each in its own time: one may refuse
            # what another has just answered (seen once in about 12 labs on a busy machine).
            self._launcher.wait(
                f"{name}: the gateway {url} answers",
                partial(serves, url, self.settings.model_name),
                timeout_s=GATEWAY_TIMEOUT_S,
                every_s=POLL_S,
            )

    def check(self) -> None:
        """Raise when a process of the control planes has died."""
        self._launcher.check()

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than the lab lives."""
        self._launcher.stopping.wait(seconds)

    def start_job(self, name: str, argv: Sequence[str]) -> Service:
        """Start a process that belongs to the lab, ends with it, and may end before it."""
        return self._jobs.start(name, argv)

    def write_state(self, *, kept: bool) -> LabState:
        """Write down how to reach and end this lab."""
        state = LabState(
            lab_id=self.id,
            fleet_file=self.settings.fleet.path.resolve(),
            started_at=self._now(),
            kept=kept,
            regions={region.name: self._region_state(region) for region in self.regions},
            namespace=self.settings.fleet.spec.namespace,
            log_dir=self.log_dir,
            env_file=self._folder / "env.sh",
            load_settings=self._folder / LOAD_FOLDER / SETTINGS_FILE,
        )
        write_state(self.settings.work_dir, state)
        return state

    def keep(self, traffic: LoadSettings) -> LabState:
        """Leave the lab up: write what is needed to use it by hand."""
        write_settings(traffic)
        variables = self.stack(self.regions[0], "serving").pulumi_env()
        toolchain = self.settings.toolchain
        folders = f"{toolchain.bin_dir}:{toolchain.python.parent}"
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        lines.append(f'export PATH={shlex.quote(folders)}:"$PATH"')
        (self._folder / "env.sh").write_text("\n".join(lines) + "\n")
        return self.write_state(kept=True)

    def stop(self) -> None:
        """End every process of the lab, and forget it."""
        self._cancel()
        self._jobs.stop()
        self._launcher.stop()
        self._reservation.close()
        forget_state(self.settings.work_dir)

    def _region_state(self, region: LabRegion) -> RegionState:
        stack = self.stack(region, "serving")
        return RegionState(
            kubeconfig=region.plane.kubeconfig,
            gateway_url=region.gateway_url,
            serving_stack=stack.stack,
            stack_config=stack.config_file,
        )

    def _cancel(self) -> None:
        self._launcher.stopping.set()
        end_marked(self.id)

    def _all_placed(self, pods: Iterable[PodView]) -> bool:
        placed = [pod.node for pod in pods if pod.is_leader or pod.is_worker]
        return len(placed) == self.settings.plan.totals.nodes and None not in placed

    def _require_staying(self) -> None:
        for region in self.regions:
            region.require_staying(STARTS)

    def _region(self, index: int, lab_number: int) -> LabRegion:
        fleet = self.settings.fleet
        spec = fleet.spec.regions[index]
        network = RegionNetwork(lab=lab_number, index=index)
        plane = ControlPlane(
            address=network.control_plane,
            folder=self._folder / spec.name,
            toolchain=self.settings.toolchain,
            launcher=self._launcher,
        )
        return LabRegion(
            spec=spec,
            roles=self.settings.plan.regions[index].roles,
            hardware=fleet.hardware,
            namespace=fleet.spec.namespace,
            network=network,
            plane=plane,
            gateway_port=fleet.spec.gateway.port,
            engine_port=fleet.release.engine.direct_port,
        )

    def _agent_settings(self, region: LabRegion) -> AgentSettings:
        return AgentSettings(
            lab_id=self.id,
            region=region.name,
            lab_number=region.network.lab,
            region_index=region.network.index,
            namespace=region.namespace,
            kubeconfig=region.plane.kubeconfig,
            folder=region.plane.folder,
            python=self.settings.toolchain.python,
            envoy=self.settings.toolchain.envoy,
            model_dir=self.settings.model_dir,
            model_name=self.settings.model_name,
            tables=self._folder,
            token_scale=self.settings.token_scale,
            engines=mocked_engines(self.settings.fleet, self.settings.token_scale),
            roles=dict(region.roles),
            house_engines=house_engines(self.settings.fleet),
        )
