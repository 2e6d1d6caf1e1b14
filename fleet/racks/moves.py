"""Decide which replicas of a rack keep their place, which get another, and which have none.

A rack with h healthy nodes runs floor(h / nodes per replica) replicas. Those whose nodes stay are
left alone: each replica that moves loses its prefix cache.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.packing import replicas_that_fit
from fleet.racks.seen import RackSeen, natural


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What becomes of a rack's replicas."""

    stay: tuple[str, ...]
    move: tuple[str, ...]  # there is room for them elsewhere in the rack
    drop: tuple[str, ...]  # there is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One replica that has to leave its nodes."""

    replica: str
    how: Literal["drop", "move"]


def usable_nodes(rack: RackSeen, gpus: int, drained: Collection[str]) -> frozenset[str]:
    """Name the nodes of a rack on which replicas may be once some are drained.

    A node that somebody else has cordoned keeps the replica that is on it, and gets no other.
    """
    fit = {node.name for node in rack.nodes if node.fit(gpus)}
    kept = {node for nodes in rack.homes().values() if not nodes & set(drained) for node in nodes}
    return frozenset((fit | kept) - set(drained))


def ailing(rack: RackSeen, gpus: int) -> frozenset[str]:
    """Name the nodes that no replica can stay on: they are ill, or gone while pods name them."""
    sick = {node.name for node in rack.nodes if node.sick(gpus)}
    known = {node.name for node in rack.nodes}
    return frozenset(sick | {seat.node for seat in rack.seats if seat.node} - known)


def silent(rack: RackSeen, node: str) -> bool:
    """Tell whether nobody on a node ends its pods: it is not Ready, or there is no such node."""
    return all(other.name != node or not other.ready for other in rack.nodes)


def settle(
    usable: Collection[str],
    homes: Mapping[str, Collection[str]],
    *,
    nodes_per_replica: int,
    parked: Collection[str] = (),
) -> Settled:
    """Place replicas on a rack's usable nodes.

    `homes` has the nodes of each replica's pods. A replica stays when all of its pods are on
    usable nodes. Of the others, those that run go before those that wait and those that are
    parked; then by slot.
    """
    usable = set(usable)
    whole = {name for name, nodes in homes.items() if len(nodes) == nodes_per_replica}
    stay = [n for n in homes if n in whole and n not in parked and usable.issuperset(homes[n])]
    taken = {node for name in stay for node in homes[name]}
    room = replicas_that_fit(len(usable - taken), nodes_per_replica)
    others = sorted(
        homes.keys() - set(stay), key=lambda n: (n in parked, n not in whole, natural(n))
    )
    return Settled(
        stay=tuple(sorted(stay, key=natural)), move=tuple(others[:room]), drop=tuple(others[room:])
    )


def leaving(
    settled: Settled,
    homes: Mapping[str, Collection[str]],
    drained: Collection[str],
    parked: Collection[str] = (),
) -> tuple[Move, ...]:
    """List what a drain has to do, in order.

    Those without a place go first: a pod of theirs that waits would take one node of two that
    become free, and keep a whole replica away.
    """
    drops = [name for name in settled.drop if name not in parked or homes[name]]
    moves = [name for name in settled.move if set(homes[name]) & set(drained)]
    return (
        *(Move(replica=name, how="drop") for name in drops),
        *(Move(replica=name, how="move") for name in moves),
    )


def returning(settled: Settled, parked: Collection[str]) -> tuple[str, ...]:
    """Name the parked replicas for which there is room again."""
    return tuple(name for name in settled.move if name in parked)
