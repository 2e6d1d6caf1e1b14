"""`k3fleet history` and `k3fleet rollout sync`: what was, and what is deployed."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli.output import output_option, print_json, print_table
from cli.rollout_where import FLEET_FILE, rollouts_of, where_options
from fleet.rollout.history import PastRollout, past_rollout
from fleet.units import format_duration
from infra.rollout.journal import Journal
from infra.rollout.machine import holder
from infra.rollout.record_file import naming
from infra.rollout.working_copy import sync as sync_copy


@click.command()
@FLEET_FILE
@where_options
@output_option
def history(fleet_file: Path, output: str, **where: Any) -> None:
    """Show the rollouts of a fleet, the latest first. Changes nothing in any cluster.

    \b
    Example:
        k3fleet history fleets/demo.yaml -o json
    """
    rollouts = rollouts_of(fleet_file, where)
    rollouts.pull()
    found = [_past(number, journal) for number, journal in rollouts.records().items()]
    found.reverse()
    if output == "json":
        print_json([asdict(past) for past in found])
    elif found:
        columns = ("rollout", "started", "by", "release", "outcome", "steps", "took")
        print_table(columns, [_row(past) for past in found])
    else:
        click.echo("no rollout was started")


def _past(number: int, journal: Journal) -> PastRollout:
    entries = journal.read()
    with naming(journal.path):
        return past_rollout(number, entries)


@click.command()
@FLEET_FILE
@where_options
@output_option
def sync(fleet_file: Path, output: str, **where: Any) -> None:
    """Bring this working copy to what is deployed: records, and the stacks' assignments.

    Needed when `pulumi up` by hand is refused because another working copy has gone on. Changes
    nothing in any cluster.

    \b
    Example:
        k3fleet rollout sync fleets/demo.yaml
    """
    rollouts = rollouts_of(fleet_file, where)
    latest = rollouts.latest()
    here = latest or rollouts.journal(0)
    with here.held_here(holder()):
        synced = sync_copy(rollouts)
    if output == "json":
        print_json([asdict(region) for region in synced])
        return
    rows = [
        (region.region, "-" if region.before is None else str(region.before), str(region.after))
        for region in synced
    ]
    print_table(("region", "serial here was", "is now"), rows)


def _row(past: PastRollout) -> tuple[object, ...]:
    when = datetime.fromtimestamp(past.started_at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return (
        past.number,
        when,
        past.by,
        f"{past.old} -> {past.new}",
        past.status,
        f"{past.steps_done} of {past.steps}",
        format_duration(round(past.last_at_s - past.started_at_s)),
    )
