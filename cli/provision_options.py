"""What the commands that provision share: which stacks, where from, and with what."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from cli.output import FunctionT, output_option
from cli.provision_progress import ShownProgress
from cli.wiring import known_secrets, kubeconfigs, tool_surroundings, work_folder
from cli.work_dir import work_dir_option
from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from infra.protected import PROTECTED
from infra.provision.ground import IN_CLUSTER, LAYERS, FleetStacks, Ground
from infra.provision.guard import Allowed
from infra.provision.planning import Planning
from infra.provision.request import Request
from infra.redaction import Redactor
from infra.settings import StackLayer
from lab.toolchain import Missing, ensure_tools, find_tools

FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))
_LAYER = click.Choice(LAYERS)

_WHICH = (
    click.option("--region", "regions", metavar="R", multiple=True, help="A region; repeatable."),
    click.option("--all", "every", is_flag=True, help="All regions of the fleet file, at once."),
    click.option(
        "--layer",
        "--only",
        "only",
        type=_LAYER,
        multiple=True,
        help="Only this layer; repeatable. Default: all that the fleet file describes.",
    ),
    click.option("--from", "since", type=_LAYER, help="This layer and those above it."),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Where the regions' contexts are. Default: $KUBECONFIG, or ~/.kube/config",
    ),
    work_dir_option,
    output_option,
)
REFRESH = click.option(
    "--refresh", is_flag=True, help="Compare with what is there, not with what Pulumi remembers."
)
OVERWRITE = click.option(
    "--overwrite",
    is_flag=True,
    help="Take back fields that somebody changed by hand; else the API server calls it a conflict.",
)
POLICY_PACK = click.option(
    "--policy-pack",
    "policy_packs",
    metavar="DIR",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="Run this policy pack over the plan; repeatable.",
)
_NAMED = "by Kind/namespace/name, URN, or a pattern of names"
_ALLOW = (
    click.option("--allow-replace", metavar="X", multiple=True, help=f"Make X anew, {_NAMED}."),
    click.option(
        "--allow-delete",
        metavar="X",
        multiple=True,
        help=f"Delete X, {_NAMED}. What is protected must be named whole.",
    ),
    click.option(
        "--allow-restart", metavar="X", multiple=True, help=f"Restart replica X, {_NAMED}."
    ),
)


# For a command that looks at everything.
ALL_OPTIONS: Mapping[str, Any] = {
    "regions": (),
    "every": True,
    "only": (),
    "since": None,
    "kubeconfig": None,
    "work_dir": None,
}


def which_options(command: FunctionT) -> FunctionT:
    """Add the fleet file, and the options that choose stacks."""
    for option in reversed(_WHICH):
        command = option(command)
    return FLEET_FILE(command)


def allow_options(command: FunctionT) -> FunctionT:
    """Add the options that allow a change."""
    for option in reversed(_ALLOW):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a command was asked, and the stacks that it is asked of."""

    fleet: Fleet
    stacks: FleetStacks
    request: Request
    show: ShownProgress

    @property
    def planning(self) -> Planning:
        """Plan for what was asked."""
        kinds = PROTECTED
        if any(layer not in IN_CLUSTER for _, layers in self.request.places for layer in layers):
            # The clouds' programs load Pulumi's SDK, which takes half a second.
            kinds |= import_module("infra.clouds.protected").PROTECTED_TYPES
        return Planning(stacks=self.stacks, request=self.request, protected=kinds)


@contextmanager
def asked(fleet_file: Path, options: Mapping[str, Any], *, parts: bool = False) -> Iterator[Asked]:
    """Read the fleet file, open its state, and choose the stacks.

    `parts`: leave what all regions share alone, unless all of them are asked for or it is named.
    """
    fleet = load_fleet(fleet_file)
    request = _request(fleet, options, parts=parts)
    with ShownProgress(sys.stderr) as show:
        stacks = FleetStacks.of(fleet, ground(fleet, options, show))
        yield Asked(fleet=fleet, stacks=stacks, request=request, show=show)


def ground(fleet: Fleet, options: Mapping[str, Any], show: ShownProgress) -> Ground:
    """Collect what provisioning takes from this process."""
    cache_dir, environ = tool_surroundings()
    own = environ.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "false")
    return Ground(
        work_dir=work_folder(fleet, options["work_dir"]),
        env={**environ, "PATH": _tools_path(cache_dir, environ, show)},
        kubeconfigs=kubeconfigs(options["kubeconfig"]),
        redactor=Redactor(known_secrets()),
        reporter=show,
        now=lambda: datetime.now(UTC),
        clock=time.monotonic,
        fetches=own != "true",
        force=options.get("overwrite", False),
    )


def _tools_path(cache_dir: Path, environ: Mapping[str, str], show: ShownProgress) -> str:
    """Add the lab's tools behind the caller's own, when they are built already."""
    path = environ.get("PATH", os.defpath)
    found = find_tools(cache_dir, path)
    if any(isinstance(tool, Missing) for tool in found.values()):
        return path
    tools = ensure_tools(cache_dir=cache_dir, environ=environ, progress=_Quiet(show))
    return f"{path}{os.pathsep}{tools.bin_dir}"


@dataclass(frozen=True, slots=True)
class _Quiet:
    """Progress of a look at tools that are all there."""

    show: ShownProgress

    def step(self, name: str) -> None:
        """Say nothing."""

    def update(self, text: str) -> None:
        """Say nothing."""


def _request(fleet: Fleet, options: Mapping[str, Any], *, parts: bool) -> Request:
    layers = _layers(fleet, options["only"], options["since"])
    named = "global" in (*options["only"], options["since"]) or options["every"]
    if parts and not named:
        layers = tuple(layer for layer in layers if layer != "global")
    packs = (str(pack.absolute()) for pack in options.get("policy_packs", ()))
    return Request(
        regions=_regions(fleet, options["regions"], every=options["every"]),
        layers=layers,
        given=_given(fleet, options["only"]),
        allowed=Allowed(
            replace=frozenset(options.get("allow_replace", ())),
            delete=frozenset(options.get("allow_delete", ())),
            restart=frozenset(options.get("allow_restart", ())),
        ),
        unasked=options.get("yes", False),
        refresh=options.get("refresh", False),
        repair=options.get("repair", False),
        policy_packs=tuple(packs),
    )


def _regions(fleet: Fleet, named: tuple[str, ...], *, every: bool) -> tuple[str, ...]:
    known = [region.name for region in fleet.spec.regions]
    if every and named:
        raise ConfigError("--all and --region: give one of them.")
    if unknown := [name for name in named if name not in known]:
        raise ConfigError(
            f"--region {unknown[0]}: not in the fleet. Use one of: {', '.join(known)}."
        )
    if not every and not named and len(known) > 1:
        raise ConfigError(f"--region: give one of {', '.join(known)}; or --all.")
    return tuple(dict.fromkeys(named)) or tuple(known)


def _layers(
    fleet: Fleet, only: tuple[StackLayer, ...], since: StackLayer | None
) -> tuple[StackLayer, ...]:
    if only and since:
        raise ConfigError("--layer and --from: give one of them.")
    if only:
        return tuple(layer for layer in LAYERS if layer in only)
    start = LAYERS.index(since) if since else 0
    shared = fleet.spec.global_spec is not None
    return tuple(layer for layer in LAYERS[start:] if layer != "global" or shared)


def _given(fleet: Fleet, only: tuple[StackLayer, ...]) -> frozenset[str]:
    """Name the regions whose cluster is not ours to make."""
    if "cluster" in only:
        return frozenset()
    return frozenset(region.name for region in fleet.spec.regions if region.cluster is None)
