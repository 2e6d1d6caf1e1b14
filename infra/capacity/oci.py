"""Read GPU memory fabrics of Oracle Cloud: a fabric is a rack.

Held to the models of the oci package 2.189; no request was ever sent to Oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.capacity.blocks import Block, Claim, Health
from fleet.capacity.claims import rack_replicas
from fleet.clouds import oci
from fleet.load import Fleet
from fleet.region_spec import RegionSpec
from infra.capacity.contract import asking, sdk

# ComputeGpuMemoryFabric.lifecycle_state, as states of a block. A fabric has no end.
_STATES = {
    "AVAILABLE": "active",
    "OCCUPIED": "active",
    "DEGRADED": "active",
    "PROVISIONING": "scheduled",
    "UNAVAILABLE": "unavailable",
}
_HEALTH = {"HEALTHY": "ok", "UNHEALTHY": "impaired"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OciReader:
    """Watch a fleet's racks in Oracle Cloud."""

    fleet: Fleet

    def claims(self) -> list[Claim]:
        """See `CapacityReader`."""
        replicas = rack_replicas(self.fleet)
        return [
            Claim(
                fleet_region=region.name,
                rack=rack.id,
                cloud="oci",
                region=region.cluster.region,
                reservation=rack.capacity.fabric if isinstance(rack.capacity, oci.Rack) else None,
                ends_at=rack.capacity_ends_at,
                replicas=replicas[rack.id],
            )
            for region in self.fleet.spec.regions
            if isinstance(region.cluster, oci.Cluster)
            for rack in region.racks
        ]

    def blocks(self) -> list[Block]:
        """See `CapacityReader`."""
        package = sdk("oci", "oci", "capacity of cloud: oci")
        found = []
        for region in self.fleet.spec.regions:
            cluster = region.cluster
            if not isinstance(cluster, oci.Cluster):
                continue
            with asking(f"oci {cluster.region}"):
                found += [block_of(fabric, cluster) for fabric in _fabrics(package, region)]
        return found


def _fabrics(package: Any, region: RegionSpec) -> Iterator[Any]:
    """Ask for the fabrics of a region's racks."""
    assert isinstance(region.cluster, oci.Cluster)  # noqa: S101 - `blocks` has seen to it
    settings = package.config.from_file(profile_name=region.cluster.profile)
    client = package.core.ComputeClient({**settings, "region": region.cluster.region})
    for rack in region.racks:
        if isinstance(rack.capacity, oci.Rack):
            yield client.get_compute_gpu_memory_fabric(rack.capacity.fabric).data


def block_of(fabric: Any, cluster: oci.Cluster) -> Block:
    """Read Oracle's model of a fabric."""
    total, healthy = fabric.total_host_count or 0, fabric.healthy_host_count or 0
    return Block(
        id=fabric.id,
        cloud="oci",
        region=cluster.region,
        zone=cluster.availability_domain,
        rack_type=cluster.shape,
        reservations=(fabric.id,),
        state=_STATES.get(fabric.lifecycle_state, str(fabric.lifecycle_state).lower()),
        starts_at=None,
        ends_at=None,
        health=Health(
            interconnect=_HEALTH.get(fabric.fabric_health, "insufficient-data"),
            total=total,
            available=healthy,
            unavailable=total - healthy,
        ),
    )
