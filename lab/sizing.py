"""Say what a fleet's lab needs of this machine, before anything is started.

Pure. The numbers are proportional set sizes measured on 2 cores with Dynamo 1.6.1 and
Kubernetes 1.37.2; `k3fleet rehearse` reports the real peak of each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.plan import Plan
from fleet.units import format_bytes
from lab.network import BLOCKS_PER_REGION, REGIONS_PER_LAB, RESERVED_HOSTS

MIB = 1024**2
CONTROL_PLANE_BYTES = 450 * MIB  # etcd, API server, controllers, scheduler, KWOK
AGENT_BYTES = 80 * MIB
REPLICA_BYTES = 105 * MIB
FRONTEND_BYTES = 210 * MIB
FRONTEND_REAL_TOKENIZER_BYTES = 600 * MIB
GATEWAY_BYTES = 70 * MIB
GENERATOR_BYTES = 300 * MIB
PULUMI_BYTES = 700 * MIB  # engine, provider and program of one region at work
NODE_BYTES = 64 * 1024
PODS_PER_REPLICA = 2
REGION_DISK_BYTES = 300 * MIB  # etcd's log and database, Pulumi's state, logs
REPLICA_DISK_BYTES = 5 * MIB
REPORT_DISK_BYTES = 100 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the lab of a fleet needs."""

    memory_bytes: int
    disk_bytes: int
    processes: int


def lab_needs(fleet: Fleet, plan: Plan, *, real_tokenizer: bool) -> Needs:
    """Estimate memory and processes of a fleet's lab."""
    regions = len(plan.regions)
    replicas = plan.totals.replicas
    has_frontends = fleet.release.engine.registers
    frontends = regions * fleet.spec.frontends.replicas if has_frontends else 0
    gateways = regions * fleet.spec.gateway.replicas
    frontend_bytes = FRONTEND_REAL_TOKENIZER_BYTES if real_tokenizer else FRONTEND_BYTES
    # A mocker stands for all pods of a replica. What a house engine needs nobody knows: as much.
    per_replica = 1 if fleet.release.engine.custom is None else fleet.release.nodes
    nodes = sum(rack.nodes for region in plan.regions for rack in region.racks)
    memory = (
        regions * (CONTROL_PLANE_BYTES + AGENT_BYTES + PULUMI_BYTES)
        + replicas * per_replica * REPLICA_BYTES
        + frontends * frontend_bytes
        + gateways * GATEWAY_BYTES
        + nodes * NODE_BYTES
        + GENERATOR_BYTES
    )
    processes = regions * 6 + replicas * per_replica + frontends + gateways
    disk = regions * REGION_DISK_BYTES + replicas * REPLICA_DISK_BYTES + REPORT_DISK_BYTES
    return Needs(memory_bytes=memory, disk_bytes=disk, processes=processes)


def require_disk(folder: Path, needs: Needs, *, free_bytes: int) -> None:
    """Raise when the work folder's disk is too full for the lab."""
    if needs.disk_bytes > free_bytes:
        raise ConfigError(
            f"{folder}: the lab needs about {format_bytes(needs.disk_bytes)} of disk, "
            f"{format_bytes(free_bytes)} are free. Free some, or give another --work-dir."
        )


def require_room(fleet: Fleet, plan: Plan, needs: Needs, *, available_bytes: int) -> None:
    """Raise when the fleet's lab does not fit: what it needs, what is here, what to do."""
    for region in plan.regions:
        if not region.replicas:
            raise ConfigError(
                f"{fleet.path}: region {region.name} holds no replica, so its gateway could never "
                "answer. Give it healthy nodes, or leave it out of the rehearsal."
            )
    if needs.memory_bytes > available_bytes:
        raise ConfigError(
            f"{fleet.path}: {plan.totals.replicas} replicas in {len(plan.regions)} region(s) need "
            f"about {format_bytes(needs.memory_bytes)} of memory and {needs.processes} processes; "
            f"{format_bytes(available_bytes)} are free here. Rehearse a smaller fleet file, "
            "or use a larger machine."
        )
    if len(plan.regions) > REGIONS_PER_LAB:
        raise ConfigError(
            f"{fleet.path}: {len(plan.regions)} regions; a lab has addresses for "
            f"{REGIONS_PER_LAB}. Rehearse some of them."
        )
    addresses = BLOCKS_PER_REGION * 256 // 2 - RESERVED_HOSTS  # half: a rollout renews each pod
    for region in plan.regions:
        pods = region.replicas * PODS_PER_REPLICA
        if pods > addresses:
            raise ConfigError(
                f"{fleet.path}: region {region.name} has {pods} engine pods; a lab has addresses "
                f"for {addresses}. Rehearse some of its racks."
            )
