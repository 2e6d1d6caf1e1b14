"""`k3fleet racks list` and `show`: what there is, and what the fleet file says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cli.output import PIPED_WIDTH, output_option, print_json, print_line, print_table
from cli.racks_picture import racks_picture
from cli.racks_where import FLEET_FILE, RACK, REGION, places, racks_asked, where_options
from fleet.errors import EXIT_GO, EXIT_NO_GO, ConfigError
from fleet.racks.differences import Difference, Expected, differences
from fleet.racks.picture import Picture, picture
from fleet.racks.seen import NodeSeen, RackSeen
from fleet.racks.svg import svg

_TRAYS = ("tray", "node", "health", "gpus", "clique", "weights", "replica", "release", "state")


@click.command(name="list")
@FLEET_FILE
@REGION
@RACK
@where_options
@output_option
def list_racks(
    fleet_file: Path, region: str | None, rack: str | None, output: str, **where: Any
) -> int:
    """List racks with what the fleet file expects, and name differences. Changes nothing.

    Exit code 1: something is not as the fleet file says.

    \b
    Example:
        k3fleet racks list fleets/demo.yaml
        k3fleet racks list fleets/demo.yaml --region us-east -o json
    """
    found = places(fleet_file, where)
    rows, told, named = [], [], []
    for name, read, racks in racks_asked(found, region, rack):
        expected = found.expected(name)
        named += _differences(expected, read.racks, read.loose, rack)
        rows += [_row(expected, one) for one in racks]
        told += [rack_json(expected, one) for one in racks]
    if output == "json":
        print_json({"racks": told, "differences": [asdict(one) for one in named]})
    else:
        columns = ("region", "rack", "nodes", "healthy", "cliques", "gpus", "serving", "releases")
        print_table(columns, rows)
        _print_differences(named)
    return _exit_code(named)


@click.command()
@FLEET_FILE
@REGION
@RACK
@click.option(
    "--svg",
    "svg_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also draw it into this SVG file.",
)
@where_options
@output_option
def show(
    fleet_file: Path,
    region: str | None,
    rack: str | None,
    svg_file: Path | None,
    output: str,
    **where: Any,
) -> int:
    """Show racks tray by tray, with a picture. Changes nothing.

    Exit code 1: something is not as the fleet file says.

    \b
    Example:
        k3fleet racks show fleets/demo.yaml --rack use1-r01
        k3fleet racks show fleets/demo.yaml --rack use1-r01 --svg rack.svg
    """
    found = places(fleet_file, where)
    asked = list(racks_asked(found, region, rack))
    expected = {name: found.expected(name) for name, _, _ in asked}
    named = [
        one
        for name, read, _ in asked
        for one in _differences(expected[name], read.racks, read.loose, rack)
    ]
    racks = [one for _, _, own in asked for one in own]
    hardware = found.fleet.hardware
    drawn = [
        picture(one, trays=hardware.nodes_per_rack, gpus=hardware.gpus_per_node) for one in racks
    ]
    if svg_file is not None:
        _write(svg_file, svg(drawn))
    if output == "json":
        told = [rack_json(expected[one.region], one) for one in racks]
        print_json({"racks": told, "differences": [asdict(one) for one in named]})
    else:
        _print_picture(drawn)
        for one in racks:
            rows = [_tray(one, node, hardware.gpus_per_node) for node in one.nodes]
            print_table(_TRAYS, rows)
        _print_differences(named)
    return _exit_code(named)


def rack_json(expected: Expected, rack: RackSeen) -> dict[str, object]:
    """Give a rack as plain data, beside what is expected of it."""
    plan = expected.racks.get(rack.id)
    gpus = expected.hardware.gpus_per_node
    return {
        "region": rack.region,
        "rack": rack.id,
        "expected": None
        if plan is None
        else {
            "nodes": plan.nodes,
            "healthy_nodes": plan.healthy_nodes,
            "gpus_per_node": gpus,
            "replicas": list(plan.replica_names),
        },
        "replicas": {name: rack.standing(name) for name in rack.homes()},
        "nodes": [_node_json(rack, node, gpus) for node in rack.nodes],
    }


def _node_json(rack: RackSeen, node: NodeSeen, gpus: int) -> dict[str, object]:
    seat = rack.on(node.name)
    return {
        "name": node.name,
        "tray": node.tray,
        "clique": node.clique or None,
        "ready": node.ready,
        "cordoned": node.cordoned,
        "cordoned_by": node.cordoned_by or None,
        "faults": list(node.sick(gpus)),
        "gpus": node.gpus,
        "weights": sorted(node.weights),
        "replica": seat.replica if seat else None,
        "release": seat.release if seat else None,
        "state": rack.standing(seat.replica) if seat else None,
    }


def _row(expected: Expected, rack: RackSeen) -> tuple[object, ...]:
    plan = expected.racks.get(rack.id)
    gpus = expected.hardware.gpus_per_node
    fit = sum(node.fit(gpus) for node in rack.nodes)
    serving = sum(rack.standing(name) == "serves" for name in rack.homes())
    return (
        rack.region,
        rack.id,
        _beside(len(rack.nodes), plan.nodes if plan else None),
        _beside(fit, plan.healthy_nodes if plan else None),
        len({node.clique for node in rack.nodes if node.clique}),
        sum(node.gpus for node in rack.nodes),
        _beside(serving, plan.replicas if plan else None),
        ", ".join(sorted({seat.release for seat in rack.seats if seat.release})) or "-",
    )


def _beside(found: int, wanted: int | None) -> str:
    return f"{found} of {'?' if wanted is None else wanted}"


def _tray(rack: RackSeen, node: NodeSeen, gpus: int) -> tuple[object, ...]:
    seat = rack.on(node.name)
    faults = [*node.sick(gpus), *(["cordoned"] if node.cordoned else [])]
    return (
        "-" if node.tray is None else node.tray,
        node.name,
        ", ".join(faults) or "ok",
        f"{node.gpus} of {gpus}",
        node.clique or "-",
        ", ".join(sorted(node.weights)) or "-",
        seat.replica if seat else "-",
        (seat.release or "-") if seat else "-",
        rack.standing(seat.replica) if seat else "-",
    )


def _differences(
    expected: Expected, racks: Sequence[RackSeen], loose: Sequence[NodeSeen], rack: str | None
) -> list[Difference]:
    found = differences(expected, racks, loose)
    return [one for one in found if rack is None or one.rack in ("", rack)]


def _print_differences(named: Sequence[Difference]) -> None:
    for one in named:
        where = one.rack or "region"
        print_line(f"{one.level}: {where}: {one.what}")
    if not named:
        print_line("as the fleet file says")


def _print_picture(drawn: Sequence[Picture]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    console.print(racks_picture(drawn), highlight=False)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--svg {path}: cannot be written: {error.strerror}. Name another file."
        ) from error


def _exit_code(named: Sequence[Difference]) -> int:
    return EXIT_NO_GO if any(one.level == "wrong" for one in named) else EXIT_GO
