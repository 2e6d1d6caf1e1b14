"""Pack replicas onto racks.

Pure. A replica never spans two racks, because tensor-parallel traffic would
leave NVLink; all the arithmetic below follows from that one rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.release import NODES_PER_REPLICA, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSlot:
    """One place in a rack that holds one copy of the model."""

    name: str
    rack: str
    region: str
    slot: int
    role: Role = "aggregated"


def replicas_that_fit(healthy_nodes: int, nodes_per_replica: int = NODES_PER_REPLICA) -> int:
    """Count the replicas that a rack's healthy nodes can hold: 9 for 18, 8 for 17."""
    return healthy_nodes // nodes_per_replica


def idle_nodes(healthy_nodes: int, replicas: int, nodes_per_replica: int) -> int:
    """Count the healthy nodes that no replica uses."""
    return healthy_nodes - replicas * nodes_per_replica


def pack_rack(
    region: str, rack: str, replicas: int, roles: tuple[Role, ...] = ("aggregated",)
) -> tuple[ReplicaSlot, ...]:
    """Name the replicas of a rack: `<rack>-<slot>`, slots from 0, roles in turn."""
    return tuple(
        ReplicaSlot(
            name=f"{rack}-{slot}",
            rack=rack,
            region=region,
            slot=slot,
            role=roles[slot % len(roles)],
        )
        for slot in range(replicas)
    )
