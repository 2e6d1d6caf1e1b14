"""`k3fleet lab`: the rehearsal's lab, kept up for work by hand."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click

from cli.lab_usage import print_usage
from cli.options import lab_options
from cli.output import output_option, print_json, print_table
from cli.wiring import surroundings, work_folder
from cli.work_dir import work_dir_option
from fleet.load import load_fleet
from lab.keep import keep_lab
from lab.leftovers import end_lab
from lab.logs import read_logs
from lab.rehearsal import RehearsalOptions
from lab.state import running_state
from lab.status import region_status

FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))


@click.group()
def lab() -> None:
    """Keep the rehearsal's lab up for work by hand.

    \b
    Example:
        k3fleet lab up fleets/demo.yaml
        k3fleet lab status fleets/demo.yaml
        k3fleet lab down fleets/demo.yaml
    """


@lab.command()
@FLEET_FILE
@lab_options
@output_option
def up(
    fleet_file: Path,
    token_scale: int,
    tokenizer_dir: Path | None,
    work_dir: Path | None,
    output: str,
) -> None:
    """Bring the lab of FLEET_FILE up and leave it up.

    The command of a house engine is really run, as you and without its image.

    \b
    Example:
        k3fleet lab up fleets/demo.yaml
    """
    fleet = load_fleet(fleet_file)
    options = RehearsalOptions(token_scale=token_scale, tokenizer_dir=tokenizer_dir)
    state = keep_lab(fleet, options, surroundings(fleet, work_dir))
    if output == "json":
        print_json(state.model_dump(mode="json"))
    else:
        print_usage(state)


@lab.command()
@FLEET_FILE
@work_dir_option
@output_option
def status(fleet_file: Path, work_dir: Path | None, output: str) -> None:
    """Show the pods of a running lab, and how to use it.

    \b
    Example:
        k3fleet lab status fleets/demo.yaml
    """
    state = running_state(work_folder(load_fleet(fleet_file), work_dir), fleet_file)
    pods = [
        pod
        for name, region in state.regions.items()
        for pod in region_status(name, region, state.namespace)
    ]
    if output == "json":
        print_json({"lab": state.model_dump(mode="json"), "pods": [asdict(pod) for pod in pods]})
        return
    rows = [(pod.region, pod.name, pod.node or "-", pod.state, pod.restarts) for pod in pods]
    print_table(("region", "pod", "node", "state", "restarts"), rows)
    print_usage(state)


@lab.command()
@FLEET_FILE
@click.option("--name", default="", help="Only logs whose name contains this, e.g. gateway.")
@click.option(
    "--lines", type=click.IntRange(min=1), default=20, show_default=True, help="Of each log."
)
@work_dir_option
def logs(fleet_file: Path, name: str, lines: int, work_dir: Path | None) -> None:
    """Show the ends of the logs of the lab's processes.

    \b
    Example:
        k3fleet lab logs fleets/demo.yaml --name gateway
    """
    folder = work_folder(load_fleet(fleet_file), work_dir)
    for path, text in read_logs(folder, name, lines):
        click.echo(f"==> {path} <==\n{text}\n")


@lab.command()
@FLEET_FILE
@work_dir_option
def down(fleet_file: Path, work_dir: Path | None) -> None:
    """End a lab: every process of it.

    \b
    Example:
        k3fleet lab down fleets/demo.yaml
    """
    began = time.monotonic()
    ended = end_lab(work_folder(load_fleet(fleet_file), work_dir))
    if ended is None:
        click.echo("no lab is up", err=True)
    else:
        click.echo(f"ended {ended} processes in {time.monotonic() - began:.1f} s", err=True)
