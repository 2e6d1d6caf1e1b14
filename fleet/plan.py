"""Plan a fleet: how many replicas each rack gets, and what they hold.

Pure: a valid fleet comes in, a plan goes out, nothing is touched.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from fleet.load import Fleet
from fleet.memory import ReplicaMemory, replica_memory
from fleet.packing import idle_nodes, pack_rack, replicas_that_fit
from fleet.region_spec import RackSpec, RegionSpec
from fleet.release import Role
from fleet.schema import has_digest

# An agent's session: about 100k tokens half way, and the model's limit.
TYPICAL_CONTEXT_TOKENS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RackPlan:
    """What one rack runs."""

    id: str
    nodes: int
    healthy_nodes: int
    replicas: int
    replica_names: tuple[str, ...]
    roles: tuple[Role, ...]  # of the replicas, in the same order


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPlan:
    """What one region runs."""

    name: str
    cloud: str
    racks: tuple[RackPlan, ...]

    @property
    def replicas(self) -> int:
        """Replicas of all racks."""
        return sum(rack.replicas for rack in self.racks)

    @property
    def roles(self) -> dict[str, Role]:
        """The job of each replica, by name."""
        return {
            name: role
            for rack in self.racks
            for name, role in zip(rack.replica_names, rack.roles, strict=True)
        }

    def with_role(self, role: Role) -> int:
        """Replicas of all racks that do one job."""
        return sum(rack.roles.count(role) for rack in self.racks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the fleet: GPUs and nodes are those that replicas use."""

    racks: int
    replicas: int
    gpus: int
    nodes: int
    weights_bytes: int  # of one copy of the checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole plan."""

    name: str
    model: str
    hardware: str
    release_id: str
    regions: tuple[RegionPlan, ...]
    totals: Totals
    memory: ReplicaMemory
    context_tokens: int
    weights_bytes_to_stage: int
    warnings: tuple[str, ...]


def make_plan(fleet: Fleet) -> Plan:
    """Decide what every rack runs, and warn about what an SRE would ask."""
    regions = tuple(_plan_region(region, fleet) for region in fleet.spec.regions)
    replicas = sum(region.replicas for region in regions)
    nodes = replicas * fleet.release.nodes
    totals = Totals(
        racks=sum(len(region.racks) for region in regions),
        replicas=replicas,
        gpus=nodes * fleet.hardware.gpus_per_node,
        nodes=nodes,
        weights_bytes=fleet.model.weights_bytes,
    )
    return Plan(
        name=fleet.spec.name,
        model=fleet.model.name,
        hardware=fleet.hardware.name,
        release_id=fleet.release_id,
        regions=regions,
        totals=totals,
        # Of the replicas that keep the prefix cache: with disaggregation those that prefill.
        memory=replica_memory(fleet.model, fleet.hardware, fleet.release, fleet.release.roles[0]),
        context_tokens=fleet.model.context_tokens,
        # Every node that loads the model keeps its own copy on local disk: 28 TB in a full rack.
        weights_bytes_to_stage=nodes * fleet.model.weights_bytes,
        warnings=_warnings(fleet, regions),
    )


def _plan_region(region: RegionSpec, fleet: Fleet) -> RegionPlan:
    racks = tuple(_plan_rack(rack, region.name, fleet) for rack in region.racks)
    return RegionPlan(name=region.name, cloud=region.cloud, racks=racks)


def _plan_rack(rack: RackSpec, region: str, fleet: Fleet) -> RackPlan:
    fits = replicas_that_fit(rack.healthy_nodes, fleet.release.nodes)
    replicas = fits if rack.replicas is None else rack.replicas
    slots = pack_rack(region, rack.id, replicas, fleet.release.roles)
    return RackPlan(
        id=rack.id,
        nodes=fleet.hardware.nodes_per_rack,
        healthy_nodes=rack.healthy_nodes,
        replicas=replicas,
        replica_names=tuple(slot.name for slot in slots),
        roles=tuple(slot.role for slot in slots),
    )


def _warnings(fleet: Fleet, regions: tuple[RegionPlan, ...]) -> tuple[str, ...]:
    warnings = []
    if not has_digest(fleet.release.dynamo.image):
        warnings.append(
            f"release {fleet.release.name}: the image {fleet.release.dynamo.image} has no digest, "
            f"so its content can change. Pin it before a launch."
        )
    router = fleet.router
    if router.mode != "kv" and router.session_affinity != "off":
        warnings.append(
            f"router: session affinity keeps a session on its replica; mode {router.mode} then "
            "only places new ones. Set session_affinity to off to get the mode alone."
        )
    for region in regions:
        if len(region.racks) == 1:
            warnings.append(
                f"region {region.name}: one rack, no spare. Losing it takes the region out."
            )
        for rack in region.racks:
            warnings += _rack_warnings(rack, fleet.release.nodes)
            warnings += _group_warnings(rack, len(fleet.release.roles))
    return tuple(warnings)


def _rack_warnings(rack: RackPlan, nodes_per_replica: int) -> list[str]:
    where = f"rack {rack.id}: {rack.healthy_nodes} of {rack.nodes} nodes healthy"
    fits = replicas_that_fit(rack.healthy_nodes, nodes_per_replica)
    if fits == 0:
        return [f"{where}, a replica needs {nodes_per_replica}: it holds nothing."]
    warnings = []
    if rack.replicas < fits:
        warnings.append(
            f"rack {rack.id}: {rack.replicas} replicas asked, {fits} fit; "
            f"{(fits - rack.replicas) * nodes_per_replica} healthy nodes stay idle by choice."
        )
    if odd := idle_nodes(rack.healthy_nodes, fits, nodes_per_replica):
        nodes = "node" if odd == 1 else "nodes"
        warnings.append(f"{where}: {fits} replicas, {odd} healthy {nodes} idle.")
    elif rack.healthy_nodes < rack.nodes:
        warnings.append(f"{where}: {fits} replicas.")
    return warnings


def _group_warnings(rack: RackPlan, group: int) -> list[str]:
    whole, over = divmod(rack.replicas, group)
    if not over:
        return []
    jobs = ", ".join(rack.roles[whole * group :])
    found = f"{rack.replicas} replicas are {whole} whole groups of {group} and {over} over"
    return [f"rack {rack.id}: {found} ({jobs}): prefill and decode are out of balance there."]


def plan_json(plan: Plan) -> dict[str, object]:
    """Return the plan as plain data for JSON."""
    memory = plan.memory
    sessions = {
        str(tokens): memory.sessions_at(tokens)
        for tokens in (TYPICAL_CONTEXT_TOKENS, plan.context_tokens)
    }
    return {
        "name": plan.name,
        "model": plan.model,
        "hardware": plan.hardware,
        "release": plan.release_id,
        "regions": [
            {"name": region.name, "cloud": region.cloud, "racks": [_rack(r) for r in region.racks]}
            for region in plan.regions
        ],
        "totals": asdict(plan.totals),
        "memory": {**asdict(memory), "sessions_at": sessions},
        "weights_bytes_to_stage": plan.weights_bytes_to_stage,
        "warnings": list(plan.warnings),
    }


def _rack(rack: RackPlan) -> dict[str, object]:
    return {**asdict(rack), "replica_names": list(rack.replica_names), "roles": list(rack.roles)}
