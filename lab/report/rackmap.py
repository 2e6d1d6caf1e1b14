"""Decide what the picture of a rack shows: 18 trays, who sits on which.

The picture is drawn from what the API server said, so a node without a
replica is told apart by its health: idle is wasted, unhealthy is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.report.document import Node, Rack, Report
from loadtest.report.timeline import Outage, outages
from loadtest.report.wording import seconds

REPLICA_COLOURS = 9  # a full rack; --replica-0 ... --replica-8 of the style sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class Tray:
    """One node as drawn: `style` is a fixed word for the style sheet, the rest is text."""

    node: str
    style: str
    colour: str
    mark: str
    says: str
    tip: tuple[str, ...]
    lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RackPicture:
    """One rack: its trays in node order and the same in a sentence."""

    id: str
    region: str
    headline: str
    summary: str
    trays: tuple[Tray, ...]


def rack_pictures(report: Report) -> tuple[RackPicture, ...]:
    """Return a picture per rack, in the order of the report."""
    by_replica: dict[str, list[Outage]] = {}
    for outage in outages(report):
        by_replica.setdefault(outage.replica, []).append(outage)
    return tuple(_picture(rack, by_replica) for rack in report.packing.racks)


def _picture(rack: Rack, outages_of: Mapping[str, list[Outage]]) -> RackPicture:
    names = sorted({node.replica for node in rack.nodes if node.replica}, key=_natural)
    place = {name: index for index, name in enumerate(names)}
    nodes = sorted(rack.nodes, key=lambda node: _natural(node.name))
    unhealthy = sum(node.healthy is False for node in nodes)
    idle = sum(not node.replica and node.healthy is not False for node in nodes)
    parts = [f"{len(names)} replicas", f"{len(nodes) - unhealthy} of {len(nodes)} nodes healthy"]
    if idle:
        parts.append(f"{idle} idle")
    seats = "; ".join(
        f"{name} on {', '.join(node.name for node in nodes if node.replica == name)}"
        for name in names
    )
    headline = ", ".join(parts)
    return RackPicture(
        id=rack.id,
        region=rack.region,
        headline=headline,
        summary=f"Rack {rack.id}: {headline}. {seats}",
        trays=tuple(_tray(node, rack, place, outages_of) for node in nodes),
    )


def _tray(
    node: Node, rack: Rack, place: Mapping[str, int], outages_of: Mapping[str, list[Outage]]
) -> Tray:
    unhealthy = node.healthy is False
    short_node = node.name.removeprefix(f"{rack.id}-") or "?"
    if not node.replica:
        style = "unhealthy" if unhealthy else "idle"
        return Tray(
            node=short_node, style=style, colour="", mark="", says=style,
            tip=(f"node {node.name}", f"{style}, no replica"), lost=False,
        )  # fmt: skip
    lost = outages_of.get(node.replica, [])
    role = node.role or "pod"
    tip = [f"replica {node.replica}, {role}", f"pod {node.pod or 'unknown'}", f"node {node.name}"]
    if unhealthy:
        tip.append("the node is unhealthy")
    tip += [_outage_text(outage) for outage in lost]
    return Tray(
        node=short_node,
        style=f"{'leader' if node.role == 'leader' else 'worker'}{' sick' if unhealthy else ''}",
        colour=f"c{place[node.replica] % REPLICA_COLOURS}",
        mark=node.replica.removeprefix(f"{rack.id}-"),
        says=role,
        tip=tuple(tip),
        lost=bool(lost),
    )


def _outage_text(outage: Outage) -> str:
    if outage.to_s is None:
        return f"lost at {seconds(outage.from_s)}, not recovered"
    return f"lost at {seconds(outage.from_s)}, back at {seconds(outage.to_s)}"


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts n2 before n10."""
    words, digits = [], ""
    for char in f"{name}\0":
        if char in "0123456789":
            digits += char
            continue
        if digits:
            words.append((0, int(digits), ""))
            digits = ""
        words.append((1, 0, char))
    return tuple(words)
