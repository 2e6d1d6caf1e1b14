"""Compare racks with what the fleet file expects of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleet.hardware import Hardware
from fleet.plan import RackPlan, RegionPlan
from fleet.racks.seen import NodeSeen, RackSeen
from fleet.racks.wording import named

Level = Literal["wrong", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is not as the fleet file says; a note needs nobody."""

    rack: str  # "": of the region
    what: str
    level: Level = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the fleet file says of one region."""

    region: RegionPlan
    hardware: Hardware
    # Weights revisions that the fleet's stage puts on every node; none: somebody else does.
    weights: frozenset[str] = frozenset()
    racks: Mapping[str, RackPlan] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "racks", {rack.id: rack for rack in self.region.racks})


def differences(
    expected: Expected, racks: Iterable[RackSeen], loose: Iterable[NodeSeen] = ()
) -> list[Difference]:
    """Name every difference of a region; `loose` are GPU nodes without a rack label."""
    found = {rack.id: rack for rack in racks}
    result = [*_region(expected, found, tuple(loose))]
    for plan in expected.region.racks:
        rack = found.get(plan.id) or RackSeen(id=plan.id, region=expected.region.name, nodes=())
        result += _rack(expected, plan, rack)
    return result


def _region(
    expected: Expected, found: Mapping[str, RackSeen], loose: tuple[NodeSeen, ...]
) -> Iterator[Difference]:
    for name in sorted(found.keys() - expected.racks.keys()):
        count = len(found[name].nodes)
        yield Difference(
            rack=name, what=f"{count} nodes carry its label, the fleet file has no such rack"
        )
    if loose:
        yield Difference(
            rack="", what=f"{len(loose)} GPU nodes carry no rack label: {_names(loose)}"
        )
    homes: dict[str, set[str]] = {}
    for rack in found.values():
        for node in rack.nodes:
            if node.domain:
                homes.setdefault(node.domain, set()).add(rack.id)
    for domain, racks in sorted(homes.items()):
        if len(racks) > 1:
            yield Difference(
                rack="", what=f"NVLink fabric {domain} is split over {', '.join(sorted(racks))}"
            )


def _rack(expected: Expected, plan: RackPlan, rack: RackSeen) -> Iterator[Difference]:
    for what in (
        *_nodes(expected.hardware, plan, rack),
        *_weights(expected, rack),
        *_replicas(plan, rack),
    ):
        yield Difference(rack=plan.id, what=what)
    fit = sum(node.fit(expected.hardware.gpus_per_node) for node in rack.nodes)
    if fit > plan.healthy_nodes:
        what = f"{fit} nodes are healthy, the fleet file counts on {plan.healthy_nodes}"
        yield Difference(rack=plan.id, what=what, level="note")


def _nodes(hardware: Hardware, plan: RackPlan, rack: RackSeen) -> Iterator[str]:
    if len(rack.nodes) != hardware.nodes_per_rack:
        yield f"{len(rack.nodes)} nodes, a rack has {hardware.nodes_per_rack}"
    without = [node for node in rack.nodes if not node.clique]
    if without:
        yield f"no clique on {_names(without)}"
    cliques = sorted({node.clique for node in rack.nodes if node.clique})
    if len(cliques) > 1:
        yield f"{len(cliques)} cliques: {named(cliques)}"
    gpus = hardware.gpus_per_node
    fit = sum(node.fit(gpus) for node in rack.nodes)
    if fit < plan.healthy_nodes:
        yield f"{fit} nodes are healthy, the fleet file counts on {plan.healthy_nodes}"
    spare = len(rack.nodes) - plan.healthy_nodes  # sick nodes that the fleet file knows of
    sick = [node for node in rack.nodes if node.sick(gpus)]
    if len(sick) > max(0, spare):
        for node in sick:
            yield f"{node.name}: {', '.join(node.sick(gpus))}"


def _weights(expected: Expected, rack: RackSeen) -> Iterator[str]:
    for revision in sorted(expected.weights):
        without = [node for node in rack.nodes if revision not in node.weights and node.ready]
        if without:
            yield f"weights {revision} are not on {_names(without)}"


def _replicas(plan: RackPlan, rack: RackSeen) -> Iterator[str]:
    for name in plan.replica_names:
        standing = rack.standing(name)
        if standing != "serves":
            yield f"replica {name}: {standing}"
    own = {node.name for node in rack.nodes}
    for seat in rack.seats:
        if seat.replica not in plan.replica_names:
            yield f"{seat.pod}: the fleet file has no replica {seat.replica}"
        if seat.node and seat.node not in own:
            yield f"{seat.pod} is on {seat.node}, which is not of this rack"
        meant = rack.assigned.get(seat.replica)
        if meant is not None and seat.release != meant and seat.standing != "ends":
            yield f"{seat.pod} runs {seat.release or 'no release'}, its object says {meant}"


def _names(nodes: Iterable[NodeSeen]) -> str:
    return named(node.name for node in nodes)
