"""A rack is drawn as it stands, and no name can leave its place in the picture."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st
from rack_sample import DOCS_PICTURE, drawn

from fleet.racks.picture import picture
from fleet.racks.seen import NodeSeen, RackSeen, Seat
from fleet.racks.svg import svg

SVG = "{http://www.w3.org/2000/svg}"


def rack(name: str = "r01", *, trays: int = 18, release: str = "r-1") -> RackSeen:
    nodes = tuple(
        NodeSeen(name=f"{name}-n{n}", gpus=4 if n != 5 else 3, ready=True) for n in range(trays)
    )
    seats = tuple(
        Seat(
            pod=f"p{n}",
            replica=f"{name}-{n // 2}",
            release=release,
            leader=n % 2 == 0,
            standing="serves" if n < 4 else "not ready",
            node=f"{name}-n{n}",
        )
        for n in range(8)
    )
    return RackSeen(id=name, region="us", nodes=nodes, seats=seats)


def test_switch_trays_are_between_the_compute_trays() -> None:
    """Ten above and eight below nine, from above to below."""
    rows = picture(rack(), trays=18, gpus=4).rows
    kinds = ["switch" if row.kind == "switch" else "tray" for row in rows]
    assert kinds == ["tray"] * 10 + ["switch"] * 9 + ["tray"] * 8
    assert [row.number for row in rows if row.kind != "switch"] == list(reversed(range(18)))


def test_what_is_missing_has_a_place() -> None:
    """A rack with 16 nodes has two holes, and not 16 trays."""
    rows = picture(rack(trays=16), trays=18, gpus=4).rows
    assert [row.number for row in rows if row.kind == "missing"] == [17, 16]


def test_a_sick_node_is_marked_also_under_a_replica() -> None:
    """Three of four GPUs: whoever sits there will fail soon."""
    found = picture(rack(), trays=18, gpus=4)
    [sick] = [row for row in found.rows if row.faults]
    assert (sick.number, sick.kind, sick.faults) == (5, "used", ("3 of 4 GPUs allocatable",))
    assert found.headline == "2 replicas serve, 18 of 18 nodes, 1 sick or cordoned, 10 idle"


def test_every_gpu_is_a_box_in_the_colour_of_its_release() -> None:
    """72 of them; 16 belong to the replicas that serve, 16 to those that do not."""
    root = ElementTree.fromstring(svg([picture(rack(), trays=18, gpus=4)]))  # noqa: S314 - ours
    boxes = [box.get("class") for box in root.iter(f"{SVG}rect") if box.get("height") == "14"]
    assert len(boxes) == 72
    assert (boxes.count("r0"), boxes.count("r0 away"), boxes.count("idle")) == (16, 16, 40)


@settings(max_examples=40)
@given(name=st.text(max_size=40), release=st.text(max_size=40))
def test_no_name_breaks_the_picture(name: str, release: str) -> None:
    """Names come from a cluster; the file has to be XML that shows text and runs nothing."""
    text = svg([picture(rack(name, release=release), trays=18, gpus=4)])
    root = ElementTree.fromstring(text)  # noqa: S314 - ours
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "title", "style", "g", "rect", "text"}


def test_the_page_shows_what_the_command_draws() -> None:
    """Draw it anew with `python tests/support/rack_sample.py` once the picture changes."""
    assert DOCS_PICTURE.read_text(encoding="utf-8") == drawn()
