"""Judge the packing as the scheduler did it: from nodes and pods, never from the plan alone.

Pure. The plan only says what is wanted; what is true comes from the API server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.plan import RackPlan, RegionPlan
from lab.pods import REPLICA_LABEL, PodView

PODS_PER_REPLICA = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as the API server shows it."""

    name: str
    rack: str
    healthy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tray:
    """One tray of a rack: its node and what runs there."""

    name: str
    healthy: bool
    replica: str | None
    role: str | None
    pod: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RackMap:
    """Which replica sits on which trays of a rack, and how many are whole."""

    region: str
    id: str
    nodes: tuple[Tray, ...]
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The racks as found, and everything that is wrong with them."""

    racks: tuple[RackMap, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def check_region(region: RegionPlan, nodes: Sequence[NodeView], pods: Iterable[PodView]) -> Packing:
    """Compare one region's nodes and pods with what its plan wants."""
    groups: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if replica := pod.labels.get(REPLICA_LABEL):
            groups[replica].append(pod)
    rack_of = {node.name: node.rack for node in nodes}
    problems = list(_shared_nodes(groups))
    racks = []
    for rack in region.racks:
        own = [node for node in nodes if node.rack == rack.id]
        faults = {
            name: tuple(_replica_faults(name, rack.id, groups.get(name, ()), rack_of))
            for name in rack.replica_names
        }
        problems += [fault for found in faults.values() for fault in found]
        problems += _rack_faults(rack, own, groups)
        whole = sum(1 for found in faults.values() if not found)
        racks.append(
            RackMap(region=region.name, id=rack.id, nodes=_trays(own, groups), replicas=whole)
        )
    wanted = {name for rack in region.racks for name in rack.replica_names}
    for name in sorted(set(groups) - wanted):
        pods_found = ", ".join(pod.name for pod in groups[name])
        problems.append(f"{region.name}: replica {name} is not in the plan (pods {pods_found})")
    return Packing(racks=tuple(racks), problems=tuple(problems))


def merge(packings: Iterable[Packing]) -> Packing:
    """Put the regions' results together."""
    found = tuple(packings)
    return Packing(
        racks=tuple(rack for packing in found for rack in packing.racks),
        problems=tuple(problem for packing in found for problem in packing.problems),
    )


def _replica_faults(
    name: str, rack: str, pods: Sequence[PodView], rack_of: Mapping[str, str]
) -> Iterable[str]:
    names = ", ".join(sorted(pod.name for pod in pods)) or "none"
    if len(pods) != PODS_PER_REPLICA:
        yield f"{name}: {len(pods)} pods instead of {PODS_PER_REPLICA} ({names})"
    for pod in pods:
        if pod.node is None:
            yield f"{name}: pod {pod.name} has no node"
    placed = [pod for pod in pods if pod.node is not None]
    racks = sorted({rack_of.get(str(pod.node), "no rack") for pod in placed})
    if placed and racks != [rack]:
        yield f"{name}: pods {names} are in {', '.join(racks)} instead of {rack}"
    if len(placed) > 1 and len({pod.node for pod in placed}) == 1:
        yield f"{name}: pods {names} are both on node {placed[0].node}"


def _shared_nodes(groups: Mapping[str, Sequence[PodView]]) -> Iterable[str]:
    users: dict[str, list[PodView]] = defaultdict(list)
    for pods in groups.values():
        for pod in pods:
            if pod.node is not None:
                users[pod.node].append(pod)
    for node, pods in sorted(users.items()):
        if len({pod.labels[REPLICA_LABEL] for pod in pods}) > 1:
            yield f"node {node}: used by pods {', '.join(sorted(pod.name for pod in pods))}"


def _rack_faults(
    rack: RackPlan, nodes: Sequence[NodeView], groups: Mapping[str, Sequence[PodView]]
) -> Iterable[str]:
    if len(nodes) != rack.nodes:
        yield f"{rack.id}: {len(nodes)} nodes carry its label instead of {rack.nodes}"
    used = {pod.node for pods in groups.values() for pod in pods}
    broken = [node.name for node in nodes if not node.healthy and node.name in used]
    if broken:
        yield f"{rack.id}: pods were placed on unhealthy nodes {', '.join(broken)}"


def _trays(nodes: Sequence[NodeView], groups: Mapping[str, Sequence[PodView]]) -> tuple[Tray, ...]:
    on_node = {pod.node: pod for pods in groups.values() for pod in pods}
    return tuple(_tray(node, on_node.get(node.name)) for node in sorted(nodes, key=_name))


def _tray(node: NodeView, pod: PodView | None) -> Tray:
    role = None
    if pod is not None:
        role = "leader" if pod.is_leader else "worker"
    return Tray(
        name=node.name,
        healthy=node.healthy,
        replica=pod.labels[REPLICA_LABEL] if pod else None,
        role=role,
        pod=pod.name if pod else None,
    )


def _name(node: NodeView) -> str:
    return node.name
