"""`k3fleet traffic`: see what a load test would send, and move what users send."""

from __future__ import annotations

import click

from cli.lazy import LazyCommand, LazyGroup

# Whoever looks for a name need not wait for what draws or reads sessions.
COMMANDS = {
    "list": LazyCommand("cli.traffic_list:list_profiles", "List the profiles of k3fleet."),
    "show": LazyCommand("cli.traffic_show:show", "Show what sessions are like, drawn or recorded."),
    "drain": LazyCommand("cli.traffic_shift:drain", "Send a region's sessions to the others."),
    "restore": LazyCommand("cli.traffic_shift:restore", "Bring a region's sessions back to it."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def traffic() -> None:
    """See what a traffic profile sends; take regions out of users' traffic.

    \b
    Example:
        k3fleet traffic list
        k3fleet traffic show interactive_agent
        k3fleet traffic drain fleets/demo.yaml us-east --dry-run
    """
