"""Read reservations of Google Cloud: state, end, and health of the sub-block that is a rack.

Held to the messages of google-cloud-compute 1.57; no request was ever sent to Google.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.capacity.blocks import Block, Claim, Health
from fleet.capacity.claims import rack_replicas
from fleet.clouds import gcp
from fleet.load import Fleet
from fleet.region_spec import RackSpec, RegionSpec
from infra.capacity.contract import asking, sdk

# Reservation.Status, as states of a block.
_STATES = {"READY": "active", "UPDATING": "active", "CREATING": "scheduled"}
_HEALTH = {"HEALTHY": "ok", "DEGRADED": "impaired"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpReader:
    """Watch a fleet's racks in Google Cloud."""

    fleet: Fleet

    def claims(self) -> list[Claim]:
        """See `CapacityReader`."""
        replicas = rack_replicas(self.fleet)
        return [
            Claim(
                fleet_region=region.name,
                rack=rack.id,
                cloud="gcp",
                region=cluster.zone,
                reservation=place.path if place else None,
                ends_at=rack.capacity_ends_at,
                replicas=replicas[rack.id],
            )
            for region, cluster, rack, place in _places(self.fleet)
        ]

    def blocks(self) -> list[Block]:
        """See `CapacityReader`."""
        where = "capacity of cloud: gcp"
        compute = sdk("google.cloud.compute_v1", "google-cloud-compute", where)
        found = {
            (cluster.project, cluster.zone, place.path): (cluster, place)
            for _, cluster, _, place in _places(self.fleet)
            if place
        }
        blocks = []
        for cluster, place in found.values():
            with asking(f"gcp {cluster.project}"):
                blocks.append(_read(compute, cluster, place))
        return blocks


def _places(
    fleet: Fleet,
) -> list[tuple[RegionSpec, gcp.Cluster, RackSpec, gcp.Rack | None]]:
    return [
        (
            region,
            region.cluster,
            rack,
            rack.capacity if isinstance(rack.capacity, gcp.Rack) else None,
        )
        for region in fleet.spec.regions
        if isinstance(region.cluster, gcp.Cluster)
        for rack in region.racks
    ]


def _read(compute: Any, cluster: gcp.Cluster, place: gcp.Rack) -> Block:
    """Ask for a rack's reservation, and for the part of it that is the rack."""
    at = {"project": cluster.project, "zone": cluster.zone}
    reservation = compute.ReservationsClient().get(reservation=place.reservation, **at)
    if place.sub_block is None:
        part = compute.ReservationBlocksClient().get(
            reservation=place.reservation, reservation_block=place.block, **at
        )
    else:
        part = compute.ReservationSubBlocksClient().get(
            parent_name=f"reservations/{place.reservation}/reservationBlocks/{place.block}",
            reservation_sub_block=place.sub_block,
            **at,
        )
    return block_of(reservation, part.resource, cluster, place)


def block_of(reservation: Any, part: Any, cluster: gcp.Cluster, place: gcp.Rack) -> Block:
    """Read Google's messages; a block without sub-block tells no machines, only its health."""
    ends = reservation.delete_at_time
    return Block(
        id=place.path,
        cloud="gcp",
        region=cluster.zone,
        zone=cluster.zone,
        rack_type=cluster.machine_type,
        reservations=(place.path,),
        state=_STATES.get(reservation.status, str(reservation.status).lower()),
        starts_at=None,
        ends_at=datetime.fromisoformat(ends) if ends else None,
        health=_health(part),
    )


def _health(part: Any) -> Health:
    health = part.health_info
    interconnect = _HEALTH.get(health.health_status, "insufficient-data")
    broken = getattr(health, "degraded_host_count", 0)
    if broken and not health.degraded_infra_count:
        interconnect = "ok"  # trays are broken, not what joins them
    return Health(
        interconnect=interconnect,
        total=part.count,
        available=part.count - broken,
        unavailable=broken,
    )
