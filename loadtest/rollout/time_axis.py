"""Draw on the time axis of a rollout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from loadtest.report.plots import (
    BAD,
    MUTED,
    Figure,
    Json,
    Table,
    axis,
    layout,
    line,
    time_axis,
)
from loadtest.report.wording import seconds
from loadtest.rollout.clients import ClientSlice
from loadtest.rollout.document import Look, RolloutReport

SINCE = "seconds since the rollout began"
MOST_MARKED = 60  # steps: with more, lines would hide what they are drawn over
SliceT = TypeVar("SliceT", Look, ClientSlice)


def stacked(
    report: RolloutReport,
    figure: Figure,
    rows: Sequence[tuple[str, list[Json]]],
    shapes: Sequence[Json],
) -> Figure:
    """Put rows of lines below each other on the rollout's time axis."""
    traces, axes = [], {}
    for row, (unit, lines) in enumerate(rows):
        suffix = str(row + 1) if row else ""
        high, step = 1 - row / len(rows), 1 / len(rows)
        axes[f"yaxis{suffix}"] = axis(
            unit, rangemode="tozero", nticks=4, domain=[max(high - step + 0.05, 0), high]
        )
        for trace in lines:
            traces.append(trace | {"yaxis": f"y{suffix}", "showlegend": False})
            traces[-1]["hovertemplate"] = f"%{{x:.0f}} s: %{{y:,.4~g}} {trace['name']}"
    xaxis = time_axis(SINCE, range=time_range(report), anchor=f"y{len(rows)}")
    return replace(
        figure,
        data=tuple(traces),
        layout=layout(shapes=list(shapes), xaxis=xaxis, **axes),
        height_px=520,
    )


def over(
    parts: Sequence[SliceT],
    name: str,
    value: Callable[[SliceT], float | None],
    colour: str,
    shape: str = "linear",
) -> Json:
    """Draw a line over spans, and a gap where nobody looked."""
    x: list[float] = []
    y: list[float | None] = []
    for part in parts:
        if x and part.from_s - x[-1] > 2 * (part.to_s - part.from_s):
            x.append(part.from_s)
            y.append(None)
        x.append(part.to_s)
        y.append(value(part))
    trace = line(name, x, y, colour)
    trace["line"]["shape"] = shape
    return trace


def step_marks(report: RolloutReport, region: str) -> list[Json]:
    own = [step for step in report.steps if region in step.regions]
    if len(own) > MOST_MARKED:
        return []
    return [
        {
            "type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
            "x0": step.from_s - report.started_at_s, "x1": step.from_s - report.started_at_s,
            "line": {"color": BAD if step.back else MUTED, "width": 1, "dash": "dot"},
            "name": f"step {step.step}",
        }
        for step in own
    ]  # fmt: skip


def time_range(report: RolloutReport) -> list[float]:
    return [0.0, max(report.took_s * 1.02, 1.0)]


def as_percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def empty(name: str, title: str, missing: str) -> Figure:
    return Figure(id=name, title=title, note="", table=Table(head=(), rows=()), missing=missing)


def seconds_of(value: float) -> str:
    """Write a moment of the rollout; what was before it began is negative."""
    return f"-{seconds(-value)}" if value < 0 else seconds(value)


def moment(at_s: float) -> str:
    """Write a Unix time as people read it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
