"""Make the stacks of a fleet from its file, the work folder and the kubeconfigs at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import yaml

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.region_spec import RegionSpec, named_region
from infra.file_config import FileConfig
from infra.kubeconfig import FAULTS
from infra.provision.cluster import ClusterLook
from infra.provision.progress import Reporter
from infra.redaction import Redactor
from infra.settings import Settings, StackLayer, StackPlace, from_config
from infra.stacks import StackRunner
from infra.state.choose import state_at
from infra.state.store import StateStore

FOLDER = "stacks"  # inside the fleet's work folder
LAYERS: tuple[StackLayer, ...] = ("global", "cluster", "platform", "serving")
IN_CLUSTER: frozenset[StackLayer] = frozenset({"platform", "serving"})


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What provisioning takes from the process that it runs in."""

    work_dir: Path
    env: Mapping[str, str]
    kubeconfigs: tuple[Path, ...]  # in the order in which they are asked for a context
    redactor: Redactor
    reporter: Reporter
    now: Callable[[], datetime]
    clock: Callable[[], float]
    fetches: bool = False  # let Pulumi fetch a cloud's plugin
    force: bool = False  # take back fields that somebody else's client has set


@dataclass(frozen=True, kw_only=True)
class FleetStacks:
    """The stacks of a fleet, seen from one working copy."""

    fleet: Fleet
    ground: Ground
    store: StateStore

    @classmethod
    def of(cls, fleet: Fleet, ground: Ground) -> FleetStacks:
        """Open the state that the fleet file names."""
        state = fleet.spec.state
        store = state_at(state.backend, state.secrets_provider, ground.work_dir / FOLDER)
        return cls(fleet=fleet, ground=ground, store=store)

    def region(self, name: str) -> RegionSpec:
        """Find a region by its name."""
        return named_region(self.fleet.spec.regions, name, self.fleet.spec.name)

    def bare(self, layer: StackLayer, region: str) -> StackRunner:
        """Give a stack as far as it is known without a cluster: to read, not to change."""
        ground = self.ground
        return StackRunner(
            layer=layer,
            settings=StackPlace(fleet=self.fleet.path, region=region),
            work_dir=ground.work_dir / FOLDER,
            state=self.store,
            redactor=ground.redactor,
            env=ground.env,
            say=ground.reporter.note,
            fetches=ground.fetches,
            force=ground.force,
            now=ground.now,
        )

    def runner(self, layer: StackLayer, region: str) -> StackRunner:
        """Give a stack with all that it is told; what was set by hand stays."""
        runner = self.bare(layer, region)
        if layer not in IN_CLUSTER:
            return runner
        look = self.look(region)
        settings = Settings(fleet=self.fleet.path, region=region, kubeconfig=look.kubeconfig)
        if runner.config_file.exists():
            settings = from_config(FileConfig.read(runner.config_file, runner.project))
        told = replace(
            settings,
            fleet=self.fleet.path,
            region=region,
            kubeconfig=look.kubeconfig,
            context=look.context,
        )
        return replace(runner, settings=told)

    def look(self, region: str) -> ClusterLook:
        """Find the kubeconfig of a region's cluster."""
        context = self.region(region).context
        file = kubeconfig_with(self.ground.kubeconfigs, context)
        if file is None:
            wanted = f"context {context}" if context else "a kubeconfig"
            raise ConfigError(
                f"region {region}: {wanted}: not found in "
                f"{', '.join(map(str, self.ground.kubeconfigs))}. Give --kubeconfig FILE; of a "
                "cluster that k3fleet made, `k3fleet outputs` names the command that writes one."
            )
        return ClusterLook(region=region, kubeconfig=file, context=context)

    def namespace(self, runner: StackRunner) -> str:
        """Name the namespace that a stack fills."""
        options = runner.settings.options if isinstance(runner.settings, Settings) else None
        return (options and options.namespace) or self.fleet.spec.namespace


def kubeconfig_with(files: tuple[Path, ...], context: str | None) -> Path | None:
    """Find the first kubeconfig that has a context; without a name, the first that is there."""
    for file in files:
        if file.is_file() and (context is None or context in _contexts(file)):
            return file
    return None


def _contexts(file: Path) -> frozenset[str]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        return frozenset(str(item["name"]) for item in content.get("contexts") or ())
    except FAULTS as error:
        raise ConfigError(f"{file}: cannot be read as a kubeconfig. Give another one.") from error
