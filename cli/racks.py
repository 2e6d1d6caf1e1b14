"""`k3fleet racks`: see racks that exist, judge them, and take nodes out of work and back."""

from __future__ import annotations

from collections.abc import Mapping

import click

from cli.lazy import LazyCommand, LazyGroup

COMMANDS: Mapping[str, LazyCommand] = {
    "list": LazyCommand("cli.racks_list:list_racks", "List racks, and what differs."),
    "show": LazyCommand("cli.racks_list:show", "Show racks tray by tray, with a picture."),
    "preflight": LazyCommand(
        "cli.racks_preflight:preflight_racks", "Check whether they may serve."
    ),
    "label": LazyCommand("cli.racks_label:label", "Write rack and tray on nodes."),
    "cordon": LazyCommand("cli.racks_work:cordon", "Let no more pods onto nodes."),
    "drain": LazyCommand("cli.racks_work:drain", "Move replicas off nodes, and cordon them."),
    "uncordon": LazyCommand("cli.racks_work:uncordon", "Bring nodes and replicas back."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def racks() -> None:
    """See, check, label and drain racks that exist.

    \b
    Example:
        k3fleet racks list fleets/demo.yaml
        k3fleet racks preflight fleets/demo.yaml
        k3fleet racks drain fleets/demo.yaml use1-r01 NODE
    """
