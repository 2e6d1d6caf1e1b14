"""Be the Pulumi program that makes one region's cluster, in whatever cloud it is.

Everything that can be wrong with the fleet file is found before the first
resource is declared, by the same check as `k3fleet config lint`.
"""

from __future__ import annotations

import pulumi

from fleet.errors import FleetError
from fleet.load import Fleet
from fleet.provisioning import load_provisionable
from fleet.region_spec import named_region
from infra.clouds import program
from infra.clouds.contract import Place
from infra.settings import fleet_and_region


def run() -> None:
    """Be the whole program; a user's mistake ends it without a traceback."""
    try:
        path, region = fleet_and_region(pulumi.Config())
        place = cluster_place(load_provisionable(path, region), region)
        cloud = program(place.region.cloud)
    except FleetError as error:
        raise pulumi.RunError(str(error)) from error
    declared = cloud.declare(place)
    pulumi.export("region", place.region.name)
    pulumi.export("cloud", place.region.cloud)
    pulumi.export("cluster_name", declared.cluster_name)
    pulumi.export("endpoint", declared.endpoint)
    pulumi.export("ca", declared.ca)
    pulumi.export("racks", dict(declared.racks))
    pulumi.export("kubeconfig_command", list(declared.kubeconfig_command))


def cluster_place(fleet: Fleet, name: str) -> Place:
    """Collect what a cloud's program is given for a region, or say which regions there are."""
    return Place(
        fleet=fleet.spec.name,
        region=named_region(fleet.spec.regions, name, fleet.spec.name),
        kubernetes=fleet.spec.kubernetes,
        nodes_per_rack=fleet.hardware.nodes_per_rack,
        gpus_per_node=fleet.hardware.gpus_per_node,
        folder=fleet.path.parent,
    )
