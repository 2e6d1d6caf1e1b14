"""Say what every plot looks like: axes, colours, marks.

Figures are plain plotly JSON. Colours are names of CSS variables, which
`plots.js` replaces by what the style sheet says for light, dark or print; so
the palette lives in one file and follows the reader's preference.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.report.document import StageLoad
from loadtest.report.timeline import Marker, Outage

INK, MUTED, GRID = "var(--ink)", "var(--muted)", "var(--grid)"
GOOD, BAD, WARN, ACCENT, SOFT = (
    "var(--good)", "var(--bad)", "var(--warn)", "var(--accent)", "var(--accent-soft)"
)  # fmt: skip
CLEAR = "rgba(0,0,0,0)"
REGION_COLOURS = 6  # --region-1 ... --region-6 of the style sheet
DASHES = ("solid", "dash", "dot")  # a second sign beside colour, from the seventh region on
EVENT_COLOUR = {"lost": BAD, "recovered": GOOD}
MAX_LABEL = 60
MAX_DOTS = 200  # with more points the dots would touch; a lone point needs its dot to be seen

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The numbers of a plot as text, for readers without the plot."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One plot: its place on the page, its numbers as text, and what plotly draws."""

    id: str
    title: str
    note: str
    table: Table
    data: tuple[Json, ...] = ()
    layout: Mapping[str, Any] | None = None
    height_px: int = 320
    missing: str = ""


def label(text: str) -> str:
    """Return `text` as plotly shows it verbatim: plotly reads a subset of HTML in every label."""
    short = text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
    return html.escape(short, quote=False)


def region_colour(index: int) -> str:
    """Return the colour of the region at `index` of the report's order."""
    return f"var(--region-{index % REGION_COLOURS + 1})"


def region_dash(index: int) -> str:
    """Return the line style that tells regions of the same colour apart."""
    return DASHES[index // REGION_COLOURS % len(DASHES)]


def axis(title: str, **more: object) -> Json:
    """Return an axis with a title, quiet grid lines and grouped thousands."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 12, "color": MUTED}},
        "gridcolor": GRID,
        "linecolor": GRID,
        "zerolinecolor": GRID,
        "tickfont": {"color": MUTED, "size": 11},
        "automargin": True,
        "separatethousands": True,
        "fixedrange": True,
    } | more


def category_axis(title: str, **more: object) -> Json:
    """Return an axis of names: never read as numbers or dates."""
    return axis(title, type="category", **more)


def time_axis(title: str = "seconds since the start of traffic", **more: object) -> Json:
    """Return the time axis that all plots over time share; it can be zoomed."""
    return axis(title, fixedrange=False, showgrid=False, ticks="outside", tickcolor=GRID, **more)


def layout(**parts: object) -> Json:
    """Return a whole layout in the style of the page."""
    base: Json = {
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": "system-ui, 'Segoe UI', Roboto, sans-serif", "color": INK, "size": 12},
        "margin": {"l": 56, "r": 16, "t": 46, "b": 44},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "var(--card)",
            "bordercolor": GRID,
            "font": {"color": INK, "size": 12},
            "namelength": 40,
        },
        "legend": {
            "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "top",
            "yref": "container", "font": {"color": MUTED}, "bgcolor": CLEAR,
        },
        "showlegend": True,
        "bargap": 0.28,
        "bargroupgap": 0.08,
    }  # fmt: skip
    return base | parts


def line(name: str, x: Sequence[float], y: Sequence[float | None], colour: str) -> Json:
    """Return a line over time; a missing value is a gap."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= MAX_DOTS else "lines",
        "marker": {"color": colour, "size": 4},
        "name": label(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 2.2},
        "connectgaps": False,
    }


def event_marks(marks: Iterable[Marker], y: float = 1.0) -> tuple[list[Json], list[Json]]:
    """Return (shapes, annotations): a numbered line per event, through all rows of a plot."""
    shapes, notes = [], []
    for mark in marks:
        colour = EVENT_COLOUR.get(mark.what, MUTED)
        shapes.append(
            {
                "type": "line", "xref": "x", "yref": "paper", "x0": mark.t_s, "x1": mark.t_s,
                "y0": 0, "y1": y, "line": {"color": colour, "width": 1.4, "dash": "dot"},
                "name": f"event {mark.label}",
            }
        )  # fmt: skip
        notes.append(
            {
                "xref": "x", "yref": "paper", "x": mark.t_s, "y": y, "yanchor": "bottom",
                "text": f"<b>{label(mark.label)}</b>", "showarrow": False,
                "font": {"color": "var(--on-mark)", "size": 10}, "bgcolor": colour, "borderpad": 2,
                "hovertext": label(mark.text),
            }
        )  # fmt: skip
    return shapes, notes


def stage_marks(stages: Iterable[StageLoad]) -> tuple[list[Json], list[Json]]:
    """Return (shapes, annotations): a line and a name where a stage begins, a tint if judged."""
    shapes, notes = [], []
    for stage in stages:
        if stage.from_s is None or stage.to_s is None:
            continue
        span = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
        if stage.judged:
            tint = {"fillcolor": ACCENT, "opacity": 0.07, "line": {"width": 0}}
            shapes.append({"type": "rect", "x0": stage.from_s, "x1": stage.to_s, **span, **tint})
        edge = {"line": {"color": MUTED, "width": 1}, "name": f"stage {stage.name}"}
        shapes.append({"type": "line", "x0": stage.from_s, "x1": stage.from_s, **span, **edge})
        notes.append(
            {
                "xref": "x", "yref": "paper", "x": stage.from_s, "xanchor": "left", "y": 0,
                "yanchor": "bottom", "text": label(stage.name), "showarrow": False,
                "font": {"color": MUTED, "size": 10},
            }
        )  # fmt: skip
    return shapes, notes


def outage_bands(outages: Iterable[Outage], end_s: float) -> list[Json]:
    """Return a tinted band per outage, from loss to recovery or to the end of the run."""
    return [
        {
            "type": "rect", "xref": "x", "yref": "paper", "x0": outage.from_s,
            "x1": end_s if outage.to_s is None else outage.to_s, "y0": 0, "y1": 1,
            "fillcolor": BAD, "opacity": 0.07, "line": {"width": 0}, "layer": "below",
        }
        for outage in outages
    ]  # fmt: skip
