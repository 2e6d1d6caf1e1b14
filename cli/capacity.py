"""`k3fleet capacity`: find, buy, watch and extend the racks that a fleet runs on."""

from __future__ import annotations

import click

from cli.capacity_buy import buy, extend
from cli.capacity_find import find
from cli.capacity_status import status


@click.group()
def capacity() -> None:
    """Find, buy, watch and extend racks: AWS capacity blocks of UltraServers.

    \b
    Example:
        k3fleet capacity find fleets/launch.yaml --for 14d
        k3fleet capacity buy fleets/launch.yaml cbo-0123 --max-fee 900000
        k3fleet capacity status fleets/launch.yaml

    \b
    Exit codes beside those of k3fleet:
        1 nothing is offered, or there are alarms
        2 the payment is still pending
        13 the credentials are of another account
        16 the cloud cannot be reached or does not let us ask
        17 nothing was bought: the offer is gone, or it was refused
        18 money may have been spent: run the same command again
    """


for command in (find, buy, status, extend):
    capacity.add_command(command)
