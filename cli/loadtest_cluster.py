"""`k3fleet loadtest deploy|start|stop|collect`: the load generator beside a region's gateway."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.confirm import YES, confirm
from cli.loadtest_output import show_judged
from cli.options import DURATION
from cli.output import output_option, print_facts, print_json, print_line
from cli.wiring import surroundings
from cli.work_dir import work_dir_option
from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from fleet.plan import make_plan
from infra.load_apply import apply_changes, changes_of, generator_objects, region_client
from infra.pod_shell import PodShell
from infra.values import region_plan
from lab.load_cluster import (
    PodPage,
    fetch_results,
    judge_collected,
    region_settings,
)
from lab.state import read_state
from loadtest.judge.gates import gates_file, load_gate_set
from loadtest.play.master_page import Page, UrlPage, load_state, start_load, stop_load
from loadtest.results.saved_run import make_new

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
FOLDER = "loadtests"

_FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))
_PLACE = (
    click.option("--region", required=True, help="Region of the fleet file."),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Of the region's cluster. Default: that of the running lab.",
    ),
    click.option("--context", help="Context of the kubeconfig. Default: its current one."),
    work_dir_option,
)
_URL = click.option(
    "--url", help="Page of the master, e.g. of a port-forward. Default: asked inside its pod."
)


def _place(command: FunctionT) -> FunctionT:
    for option in reversed(_PLACE):
        command = option(command)
    return command


class _Region:
    """One region of a fleet file, and how its cluster is reached."""

    def __init__(self, fleet_file: Path, given: dict[str, Any]) -> None:
        self.fleet: Fleet = load_fleet(fleet_file)
        self.name: str = given["region"]
        self.objects = generator_objects(self.fleet, self.name)  # refuses what cannot be
        self.around = surroundings(self.fleet, given["work_dir"])
        self._given = given

    @property
    def namespace(self) -> str:
        return self.fleet.spec.namespace

    def kubeconfig(self) -> Path:
        """Find the kubeconfig: the one given, or the lab's."""
        if self._given["kubeconfig"]:
            return Path(self._given["kubeconfig"])
        state = read_state(self.around.work_dir)
        if state is None or not state.alive or self.name not in state.regions:
            raise ConfigError(
                f"--kubeconfig: is needed, as no lab of {self.fleet.path} is up. "
                "Give the kubeconfig of the region's cluster."
            )
        return state.regions[self.name].kubeconfig

    def shell(self) -> PodShell:
        """Give a way into the pods of the region."""
        client = region_client(self.kubeconfig(), self._given["context"], self.namespace)
        return PodShell(client=client, namespace=self.namespace)

    def page(self, url: str | None) -> Page:
        """Give the page of the master."""
        return UrlPage(url=url) if url else PodPage(shell=self.shell())


@click.command()
@_FLEET_FILE
@_place
@YES
@output_option
def deploy(fleet_file: Path, output: str, *, yes: bool, **given: Any) -> None:
    """Bring the load generator of a region into its cluster. Nothing is sent until it is started.

    Shows what would be created or changed, and asks.

    \b
    Example, with a fleet file that has `loadtest`:
        k3fleet loadtest deploy FLEET_FILE --region us-east --kubeconfig us-east.kubeconfig
    """
    region = _Region(fleet_file, given)
    client = region.shell().client
    changes = changes_of(client, region.objects, region.namespace)
    if output == "table":
        for change in changes:
            print_line(f"{change.verb:<7} {change.what}")
    if any(change.verb != "keep" for change in changes):
        confirm(yes=yes, what=f"Apply to {region.name}?")
    applied = apply_changes(client, changes)
    if output == "json":
        found = [{"verb": change.verb, "what": change.what} for change in changes]
        print_json({"applied": applied, "changes": found})
    else:
        print_line(f"{applied} of {len(changes)} objects applied")


@click.command()
@_FLEET_FILE
@_place
@_URL
@click.option("--users", type=click.IntRange(1), help="Default: those of the fleet file.")
@click.option("--duration", "duration_s", type=DURATION, help="Default: that of the fleet file.")
def start(
    fleet_file: Path, url: str | None, users: int | None, duration_s: float | None, **given: Any
) -> None:
    """Start the load of a region's generator.

    \b
    Example, with a fleet file that has `loadtest`:
        k3fleet loadtest start FLEET_FILE --region us-east --users 200 --duration 30m
    """
    region = _Region(fleet_file, given)
    settings = region_settings(region.fleet, region.name)
    said = start_load(
        region.page(url),
        users=users or settings.users or 1,
        spawn_per_s=settings.spawn_per_s,
        duration_s=duration_s or settings.duration_s,
    )
    print_line(said)


@click.command()
@_FLEET_FILE
@_place
@_URL
@output_option
def stop(fleet_file: Path, url: str | None, output: str, **given: Any) -> None:
    """Stop the load of a region's generator, and say what it sent.

    \b
    Example, with a fleet file that has `loadtest`:
        k3fleet loadtest stop FLEET_FILE --region us-east
    """
    page = _Region(fleet_file, given).page(url)
    said, state = stop_load(page), load_state(page)
    found = {
        "message": said,
        "state": state.state,
        "workers": state.workers,
        "requests": state.requests,
        "failures": state.failures,
    }
    if output == "json":
        print_json(found)
    else:
        print_facts((name, str(value)) for name, value in found.items())


@click.command()
@_FLEET_FILE
@_place
@click.option(
    "--gates",
    metavar="NAME|FILE",
    default="launch",
    show_default=True,
    help="Limits to judge by.",
)
@click.option(
    "--out",
    "out_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new folder for all files. Default: one below the work folder.",
)
@output_option
def collect(fleet_file: Path, gates: str, out_dir: Path | None, output: str, **given: Any) -> None:
    """Fetch what the workers of a region wrote, and judge it: exit 0 go, 1 no-go, 2 invalid.

    \b
    Example, with a fleet file that has `loadtest`:
        k3fleet loadtest collect FLEET_FILE --region us-east --gates launch
    """
    chosen = load_gate_set(gates_file(gates))
    region = _Region(fleet_file, given)
    started = f"{region.around.now():%Y%m%d-%H%M%S-%f}"
    folder = (out_dir or region.around.work_dir / FOLDER / started).absolute()
    make_new(folder)
    shell = region.shell()
    fetch_results(region.fleet, region.name, shell, folder)
    plan = region_plan(make_plan(region.fleet), region.name)
    judged = judge_collected(region.fleet, plan, shell.client, folder, chosen)
    show_judged(judged, folder, output)
