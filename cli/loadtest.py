"""`k3fleet loadtest`: send a load, judge it, look at it again."""

from __future__ import annotations

import click

from cli.lazy import LazyCommand, LazyGroup

# `report` and the others that only read must not wait for Locust and gevent.
COMMANDS = {
    "run": LazyCommand("cli.loadtest_run:run", "Send a load and judge it: go or no-go."),
    "report": LazyCommand("cli.loadtest_report:report", "Judge a saved run again."),
    "compare": LazyCommand(
        "cli.loadtest_compare:compare_command", "Say what differs between two runs."
    ),
    "size": LazyCommand("cli.loadtest_size:size", "Say how many cores a load needs."),
    "deploy": LazyCommand(
        "cli.loadtest_cluster:deploy", "Bring a region's load generator into its cluster."
    ),
    "start": LazyCommand("cli.loadtest_cluster:start", "Start the load of that generator."),
    "stop": LazyCommand("cli.loadtest_cluster:stop", "Stop it."),
    "collect": LazyCommand("cli.loadtest_cluster:collect", "Fetch what it measured, and judge."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def loadtest() -> None:
    """Send the traffic of coding agents, and judge what comes back.

    \b
    Example:
        k3fleet loadtest run fleets/demo.yaml
        k3fleet loadtest report RUN_FOLDER
    """
