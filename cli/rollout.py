"""`k3fleet rollout`: bring a release out over a fleet, replica by replica."""

from __future__ import annotations

import click

from cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "plan": LazyCommand(
        "cli.rollout_plan:plan", "Show the steps from the fleet's release to RELEASE."
    ),
    "start": LazyCommand("cli.rollout_drive:start", "Bring RELEASE out, wave by wave."),
    "status": LazyCommand("cli.rollout_status:status", "Show where the latest rollout is."),
    "pause": LazyCommand("cli.rollout_drive:pause", "Stop once the step is over."),
    "resume": LazyCommand("cli.rollout_drive:resume", "Drive the latest rollout on."),
    "abort": LazyCommand("cli.rollout_drive:abort", "Turn its step back, and leave the others."),
    "report": LazyCommand(
        "cli.rollout_report:report", "Write a page of what a rollout did, and what users saw."
    ),
    "sync": LazyCommand("cli.rollout_history:sync", "Bring this working copy to what is deployed."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def rollout() -> None:
    """Bring a release out over a fleet in waves.

    \b
    Example:
        k3fleet rollout plan fleets/demo.yaml vllm-tp8-dcp8-dspark
    """
