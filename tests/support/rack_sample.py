"""Give the rack that docs/images/rack.svg shows; run as a program, it draws the file anew."""

from __future__ import annotations

from pathlib import Path

from fleet.racks.picture import picture
from fleet.racks.seen import NodeSeen, RackSeen, Seat
from fleet.racks.svg import svg

DOCS_PICTURE = Path(__file__).parents[2] / "docs/images/rack.svg"
OLD, NEW = "vllm-tp8-dcp8-1f0c2d3e", "vllm-tp8-dcp8-9ab84c71"


def sample() -> RackSeen:
    """A rack in the middle of a rollout: one node sick, one drained, one replica parked."""
    nodes = tuple(
        NodeSeen(
            name=f"use1-r01-n{number:02d}",
            rack="use1-r01",
            tray=number,
            clique="7b968a6d.1",
            gpus=3 if number == 14 else 4,
            ready=True,
            cordoned=number in (14, 16),
            cordoned_by="ada" if number == 16 else "",
        )
        for number in range(18)
    )
    seats = tuple(
        Seat(
            pod=f"use1-r01-{number // 2}-0{'' if number % 2 == 0 else '-1'}",
            replica=f"use1-r01-{number // 2}",
            release=NEW if number < 6 else OLD,
            leader=number % 2 == 0,
            standing="not ready" if number in (4, 5) else "serves",
            node=f"use1-r01-n{number:02d}",
        )
        for number in range(14)
    )
    return RackSeen(
        id="use1-r01",
        region="us-east",
        nodes=nodes,
        seats=seats,
        parked=frozenset({"use1-r01-8"}),
    )


def drawn() -> str:
    """Draw it."""
    return svg([picture(sample(), trays=18, gpus=4)])


if __name__ == "__main__":
    DOCS_PICTURE.write_text(drawn(), encoding="utf-8")
