"""Draw racks on a terminal: trays with their GPUs, coloured by release; plain text elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cli.plain import plain
from fleet.racks.picture import Picture, Row

COLOURS = ("blue", "green", "magenta", "cyan", "yellow")
SERVES, AWAY, IDLE, LOST = "■", "□", "·", "x"
_LINE = 44  # columns of a headline's line: two racks fit side by side
LEGEND = "■ serves  □ does not serve  · idle  x sick, cordoned or missing"


def racks_picture(pictures: Sequence[Picture]) -> RenderableType:
    """Draw racks side by side where there is room."""
    releases = sorted({name for picture in pictures for name in picture.releases})
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(releases)}
    legend = Text("  ").join([*(Text(plain(n), colours[n]) for n in releases), Text(LEGEND)])
    return Group(Columns([_rack(picture, colours) for picture in pictures]), legend)


def _rack(picture: Picture, colours: Mapping[str, str]) -> Panel:
    table = Table.grid(padding=(0, 1))
    for row in picture.rows:
        if row.kind == "switch":
            table.add_row("", Text("NVLink switch", "dim"), Text("═" * 4, "dim"), "")
        else:
            table.add_row(
                f"{row.number:02d}", Text(plain(row.node)), _gpus(row, colours), _says(row)
            )
    title = Text(plain(f"{picture.region} {picture.id}".strip()))
    headline = Text("\n".join(wrap(plain(picture.headline), _LINE)))
    return Panel(Group(headline, table), title=title, expand=False)


def _gpus(row: Row, colours: Mapping[str, str]) -> Text:
    if row.kind == "used":
        sign, style = SERVES if row.standing == "serves" else AWAY, colours.get(row.release, "red")
    else:
        sign, style = (IDLE, "dim") if row.kind == "idle" else (LOST, "red")
    return Text(sign * row.gpus, style)


def _says(row: Row) -> Text:
    fault = f"! {row.faults[0]}" if row.faults else ""
    words = "missing" if row.kind == "missing" else f"{row.replica} {fault}".strip()
    return Text(plain(words), "red" if row.faults or row.kind == "missing" else "")
