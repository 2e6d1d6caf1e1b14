"""`k3fleet rollout`: bring a release out over a fleet, replica by replica."""

from __future__ import annotations

from pathlib import Path

import click

from cli import rollout_drive, rollout_history, rollout_status
from cli.output import output_option, print_json
from cli.rollout_plan import HERE, REGIONS, STRATEGY, named_release, print_plan
from fleet.load import load_fleet, load_release
from fleet.rollout.plan import plan_rollout, rollout_json
from fleet.rollout.strategy import load_strategy


@click.group()
def rollout() -> None:
    """Bring a release out over a fleet in waves.

    \b
    Example:
        k3fleet rollout plan fleets/demo.yaml vllm-tp8-dcp8-dspark
    """


@rollout.command()
@click.argument("fleet_file", type=click.Path(path_type=Path))
@click.argument("release")
@REGIONS
@STRATEGY
@output_option
def plan(
    fleet_file: Path,
    release: str,
    regions: tuple[str, ...],
    strategy_file: Path | None,
    output: str,
) -> None:
    """Show the steps from the fleet's release to RELEASE (a preset or a file). Changes nothing.

    \b
    Example:
        k3fleet rollout plan fleets/demo.yaml vllm-tp8-dcp8-dspark
        k3fleet rollout plan fleets/demo.yaml releases/mine-0a1b2c3d.yaml --region us-east -o json
    """
    load_release(release, beside=HERE)  # its own faults first, as it was typed
    result = plan_rollout(
        load_fleet(fleet_file),
        load_fleet(fleet_file, release=named_release(release, fleet_file)).release,
        load_strategy(strategy_file),
        regions=regions,
    )
    if output == "json":
        print_json(rollout_json(result))
    else:
        print_plan(result)


for command in (
    rollout_drive.start,
    rollout_status.status,
    rollout_drive.pause,
    rollout_drive.resume,
    rollout_drive.abort,
    rollout_history.sync,
):
    rollout.add_command(command)
