"""Decide which replicas of a rack keep their place, which get another, and which have none.

A rack with h healthy nodes runs floor(h / nodes per replica) replicas. Those whose nodes stay are
left alone: each replica that moves loses its prefix cache.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.packing import replicas_that_fit
from fleet.racks.seen import natural


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


def settle(
    usable: Collection[str],
    homes: Mapping[str, Collection[str]],
    *,
    nodes_per_replica: int,
    parked: Collection[str] = (),
) -> Settled:
    """Place replicas on a rack's usable nodes.

    `homes` has the nodes of each replica's pods. A replica stays when all of its pods are on
    usable nodes; of the others, those that run go before those that are parked, by slot.
    """
    usable = set(usable)
    stay = [
        name
        for name, nodes in homes.items()
        if name not in parked and len(nodes) == nodes_per_replica and usable.issuperset(nodes)
    ]
    taken = {node for name in stay for node in homes[name]}
    room = replicas_that_fit(len(usable - taken), nodes_per_replica)
    others = sorted(homes.keys() - set(stay), key=lambda name: (name in parked, natural(name)))
    return Settled(
        stay=tuple(sorted(stay, key=natural)), move=tuple(others[:room]), drop=tuple(others[room:])
    )


def leaving(
    settled: Settled,
    homes: Mapping[str, Collection[str]],
    usable: Collection[str],
    parked: Collection[str] = (),
) -> tuple[Move, ...]:
    """List what a drain has to do, in order.

    Those without a place go first: a pod of theirs that waits would take one node of two that
    become free, and keep a whole replica away.
    """
    drops = [name for name in settled.drop if name not in parked or homes[name]]
    moves = [name for name in settled.move if set(homes[name]) - set(usable)]
    return (
        *(Move(replica=name, how="drop") for name in drops),
        *(Move(replica=name, how="move") for name in moves),
    )


def returning(settled: Settled, parked: Collection[str]) -> tuple[str, ...]:
    """Name the parked replicas for which there is room again."""
    return tuple(name for name in settled.move if name in parked)
