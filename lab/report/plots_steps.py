"""Draw the steps of a rehearsal."""

from __future__ import annotations

from lab.report.document import Report
from loadtest.report.plots import (
    ACCENT,
    BAD,
    MUTED,
    Figure,
    Json,
    Table,
    axis,
    category_axis,
    label,
    layout,
)
from loadtest.report.wording import seconds

EMPTY = Table(head=(), rows=())
STEP_COLOUR = {"ok": ACCENT, "failed": BAD, "skipped": MUTED}


def steps_figure(report: Report) -> Figure:
    """Draw the steps of the rehearsal, one after the other, on one time axis."""
    title = "Steps of the rehearsal"
    steps = report.steps
    if not steps:
        missing = "The report names no step."
        return Figure(id="steps", title=title, note="", table=EMPTY, missing=missing)
    durations = [step.seconds or 0.0 for step in steps]
    starts = [sum(durations[:index]) for index in range(len(steps))]
    names = [label(f"{index + 1}. {step.name}") for index, step in enumerate(steps)]
    trace: Json = {
        "type": "bar", "orientation": "h", "y": names, "x": durations, "base": starts,
        "text": [
            ", ".join(_step_words(step.status, step.seconds)) for step in steps
        ],
        "textposition": "outside", "cliponaxis": False, "constraintext": "none",
        "textfont": {"color": MUTED},
        "marker": {"color": [STEP_COLOUR.get(step.status, MUTED) for step in steps]},
        "hovertemplate": "%{y}: %{text}<extra></extra>", "showlegend": False,
    }  # fmt: skip
    end_s = max(sum(durations) * 1.14, 1.0)  # room for the text right of the last bar
    drawn = layout(
        showlegend=False,
        margin={"l": 56, "r": 16, "t": 8, "b": 44},
        yaxis=category_axis("", autorange="reversed", showgrid=False),
        xaxis=axis("seconds since the start of the rehearsal", range=[0, end_s]),
    )
    rows = tuple((s.name, seconds(s.seconds), s.status, s.detail) for s in steps)
    return Figure(
        id="steps", title=title, note=f"Together {seconds(sum(durations))}.",
        table=Table(head=("step", "time", "status", "detail"), rows=rows),
        data=(trace,), layout=drawn, height_px=70 + 30 * len(steps),
    )  # fmt: skip


def _step_words(status: str, took_s: float | None) -> list[str]:
    words = [] if status == "ok" else [label(status or "unknown")]
    return words if took_s is None else [*words, seconds(took_s)]
