"""`k3fleet racks`: see racks that exist, judge them, and take nodes out of work and back."""

from __future__ import annotations

import click

from cli import racks_label, racks_list, racks_preflight, racks_work


@click.group()
def racks() -> None:
    """See, check, label and drain racks that exist.

    \b
    Example:
        k3fleet racks list fleets/demo.yaml
        k3fleet racks preflight fleets/demo.yaml
        k3fleet racks drain fleets/demo.yaml use1-r01 NODE
    """


for command in (
    racks_list.list_racks,
    racks_list.show,
    racks_preflight.preflight_racks,
    racks_label.label,
    racks_work.cordon,
    racks_work.drain,
    racks_work.uncordon,
):
    racks.add_command(command)
