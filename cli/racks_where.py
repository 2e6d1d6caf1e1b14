"""Say which clusters a command of `k3fleet racks` is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cli.output import FunctionT
from cli.wiring import surroundings
from cli.work_dir import KUBECONFIG, LAB, require_one_place, work_dir_option
from fleet.errors import ConfigError
from fleet.load import load_fleet
from fleet.racks.seen import RackSeen
from infra.racks.reader import RegionRacks, read_racks
from lab.racks import RackPlaces

FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))
REGION = click.option("--region", metavar="REGION", help="Only this region.")
RACK = click.option("--rack", metavar="ID", help="Only this rack.")


def where_options(command: FunctionT) -> FunctionT:
    """Add the options that say which clusters."""
    return work_dir_option(LAB(KUBECONFIG(command)))


def places(fleet_file: Path, where: Mapping[str, Any]) -> RackPlaces:
    """Find the clusters, and say on stderr which they are."""
    fleet = load_fleet(fleet_file)
    lab_dir, kubeconfig = where["lab_dir"], where["kubeconfig"]
    require_one_place(lab_dir, kubeconfig)
    found = RackPlaces.of(
        fleet, surroundings(fleet, where["work_dir"]), lab_dir=lab_dir, kubeconfig=kubeconfig
    )
    click.echo(f"racks: {found.said}", err=True)
    return found


def in_region(found: RackPlaces, region: str | None) -> Sequence[str]:
    """Name the regions that are asked for."""
    if region is None:
        return tuple(found.plans)
    if region not in found.plans:
        known = ", ".join(found.plans)
        raise ConfigError(f"--region {region}: not in the fleet file. Use one of: {known}.")
    return (region,)


def racks_asked(
    found: RackPlaces, region: str | None, rack: str | None
) -> Iterator[tuple[str, RegionRacks, tuple[RackSeen, ...]]]:
    """Read the regions that are asked for; give each with its racks, those of the file first."""
    if rack is not None and region is None:
        region = found.region_of(rack)
    for name in in_region(found, region):
        read = read_racks(found.clusters[name])
        own = [plan.id for plan in found.plans[name].racks]
        by_id = {one.id: one for one in read.racks}
        ids = [*own, *sorted(by_id.keys() - set(own))]
        if rack is not None:
            if rack not in ids:
                raise ConfigError(f"--rack {rack}: not in region {name}. Use one of: {ids}.")
            ids = [rack]
        racks = tuple(by_id.get(i) or RackSeen(id=i, region=name, nodes=()) for i in ids)
        yield name, read, racks
