"""Decide what the picture of a rack shows: 18 compute trays, 9 switch trays, who sits where.

Drawn as the rack stands: compute trays above and below the NVLink switch trays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.racks.seen import NodeSeen, RackSeen, Seat

# NVIDIA GB200/GB300 NVL72: ten compute trays above nine NVLink switch trays, eight below.
SWITCH_TRAYS = 9
TRAYS_BELOW = 8

Kind = Literal["used", "idle", "sick", "missing", "switch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One tray as it is drawn."""

    kind: Kind
    number: int  # of the tray from below, or of the switch
    node: str = ""
    gpus: int = 0  # boxes
    replica: str = ""
    release: str = ""
    standing: str = ""
    leader: bool = False
    faults: tuple[str, ...] = ()  # of the node; it may be used all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A rack from above to below, and the releases in the order of their colours."""

    id: str
    region: str
    rows: tuple[Row, ...]
    releases: tuple[str, ...]
    headline: str


def picture(rack: RackSeen, *, trays: int, gpus: int) -> Picture:
    """Draw one rack that should have so many trays with so many GPUs each."""
    compute = [_row(rack, node, number, gpus) for number, node in enumerate(rack.nodes)]
    compute += [Row(kind="missing", number=n, gpus=gpus) for n in range(len(compute), trays)]
    switches = [Row(kind="switch", number=n) for n in reversed(range(SWITCH_TRAYS))]
    above, below = compute[TRAYS_BELOW:], compute[:TRAYS_BELOW]
    rows = (*reversed(above), *switches, *reversed(below))
    return Picture(
        id=rack.id,
        region=rack.region,
        rows=rows,
        releases=tuple(sorted({row.release for row in rows if row.release})),
        headline=_headline(rack, rows, trays),
    )


def _row(rack: RackSeen, node: NodeSeen, number: int, gpus: int) -> Row:
    seat = rack.on(node.name)
    faults = (*node.sick(gpus), *(("cordoned",) if node.cordoned else ()))
    return Row(
        kind=_kind(seat, faults),
        number=number,
        node=node.name,
        gpus=gpus,
        replica=seat.replica if seat else "",
        release=seat.release if seat else "",
        standing=rack.standing(seat.replica) if seat else "",
        leader=bool(seat and seat.leader),
        faults=faults,
    )


def _kind(seat: Seat | None, faults: tuple[str, ...]) -> Kind:
    if seat is not None:
        return "used"
    return "sick" if faults else "idle"


def _headline(rack: RackSeen, rows: tuple[Row, ...], trays: int) -> str:
    serving = {row.replica for row in rows if row.standing == "serves"}
    sick = sum(bool(row.faults) for row in rows)
    parts = [f"{len(serving)} replicas serve", f"{len(rack.nodes)} of {trays} nodes"]
    if sick:
        parts.append(f"{sick} sick or cordoned")
    if idle := sum(row.kind == "idle" for row in rows):
        parts.append(f"{idle} idle")
    return ", ".join(parts)
