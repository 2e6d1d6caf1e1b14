"""Describe a rack as it was read from its cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

RACK_LABEL = "k3fleet.io/rack"
TRAY_LABEL = "k3fleet.io/tray"
HEALTH_LABEL = "k3fleet.io/health"
CLIQUE_LABEL = "nvidia.com/gpu.clique"  # ClusterUUID.CliqueID; GPU feature discovery writes it
UNHEALTHY = "unhealthy"

# How a pod of a replica stands; only the first has clients.
Standing = Literal["serves", "out of routing", "not ready", "ends"]

_DIGITS = re.compile(r"([0-9]+)")
_LONGEST_NUMBER = 9  # digits that are compared as a number; a hostile name may have thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """One compute tray."""

    name: str
    rack: str = ""  # "": it carries no rack label
    tray: int | None = None
    clique: str = ""  # "": absent, as it is until Fabric Manager has completed
    arch: str = ""
    gpus: int = 0  # allocatable
    kernel: str = ""
    driver: str = ""  # as GPU feature discovery labels it
    ready: bool = False
    cordoned: bool = False
    cordoned_by: str = ""  # "": not by us
    health: str = ""  # what a health agent says
    conditions: tuple[str, ...] = ()  # that are not as they should be
    weights: frozenset[str] = frozenset()  # revisions that are whole on it
    provider_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def domain(self) -> str:
        """ClusterUUID of its NVLink fabric: the same all over one rack."""
        return self.clique.partition(".")[0]

    def fit(self, gpus: int) -> bool:
        """Say whether a replica may run here."""
        return not self.sick(gpus) and not self.cordoned

    def sick(self, gpus: int) -> tuple[str, ...]:
        """Say what is wrong with it, beside a cordon."""
        found = list(self.conditions)
        if not self.ready:
            found.insert(0, "not Ready")
        if self.health == UNHEALTHY:
            found.append("its health agent says unhealthy")
        if self.gpus < gpus:
            found.append(f"{self.gpus} of {gpus} GPUs allocatable")
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One pod of a replica, and the node that it is on."""

    pod: str
    replica: str
    release: str
    leader: bool
    standing: Standing
    node: str = ""  # "": nowhere yet


@dataclass(frozen=True, slots=True, kw_only=True)
class RackSeen:
    """One rack: its nodes in tray order, and who sits on them."""

    id: str
    region: str
    nodes: tuple[NodeSeen, ...]
    seats: tuple[Seat, ...] = ()
    # Release that each replica's object names; pods that run another one are on their way.
    assigned: Mapping[str, str] = field(default_factory=dict)
    parked: frozenset[str] = frozenset()  # replicas that a drain has set to no pods

    def on(self, node: str) -> Seat | None:
        """Find who sits on a node; one that ends gives way to one that comes."""
        found = [seat for seat in self.seats if seat.node == node]
        return min(found, key=lambda seat: seat.standing == "ends", default=None)

    def homes(self) -> dict[str, frozenset[str]]:
        """Map each replica that has an object here to the nodes that its pods are on."""
        names = {*self.assigned, *self.parked, *(seat.replica for seat in self.seats)}
        return {
            name: frozenset(s.node for s in self.seats if s.replica == name and s.node)
            for name in sorted(names, key=natural)
        }

    def standing(self, replica: str) -> str:
        """Say how a replica stands, by its leader."""
        if replica in self.parked:
            return "parked"
        leaders = [seat for seat in self.seats if seat.replica == replica and seat.leader]
        found = min(leaders, key=lambda seat: seat.standing == "ends", default=None)
        return "no pod" if found is None else found.standing


def in_tray_order(nodes: Iterable[NodeSeen]) -> tuple[NodeSeen, ...]:
    """Order nodes by tray; those that do not say theirs come last, by name, 2 before 10."""
    return tuple(sorted(nodes, key=lambda n: (n.tray is None, n.tray or 0, natural(n.name))))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts n2 before n10."""
    return tuple(
        (0, int(part), "") if part.isdigit() and len(part) <= _LONGEST_NUMBER else (1, 0, part)
        for part in _DIGITS.split(name)
        if part
    )
