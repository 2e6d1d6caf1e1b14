"""Draw the steps of a rollout."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.rollout.record import Phase
from fleet.rollout.story import Span, StepStory
from loadtest.report.plots import (
    ACCENT,
    BAD,
    GOOD,
    MUTED,
    SOFT,
    WARN,
    Figure,
    Json,
    Table,
    category_axis,
    label,
    layout,
    time_axis,
)
from loadtest.report.wording import MISSING, seconds
from loadtest.rollout.document import RolloutReport
from loadtest.rollout.time_axis import SINCE, empty, seconds_of, time_range

MOST_DRAWN = 400  # steps: with more, a bar is a whole step and not each of its phases
# What a replica goes through, in four kinds: away for users, being made, being proved, waited for.
KINDS: dict[str, tuple[str, tuple[Phase, ...]]] = {
    "drain": (WARN, ("preflight", "drain")),
    "update": (ACCENT, ("assign", "apply", "verify")),
    "start": (MUTED, ("ready", "registered")),
    "proof": (GOOD, ("smoke", "restore", "gates")),
    "soak": (SOFT, ("soak",)),
}
KIND_OF = {phase: kind for kind, (_, phases) in KINDS.items() for phase in phases}


def steps_figure(report: RolloutReport) -> Figure:
    """Draw each try of each phase as a bar, a row for each wave and way."""
    title = "Waves, steps and phases"
    if not report.steps:
        return empty("steps", title, "No step has begun.")
    traces = [
        trace for kind, (colour, _) in KINDS.items() if (trace := _bars(report, kind, colour))
    ]
    rows = list(dict.fromkeys(_row(step) for step in report.steps))
    drawn = layout(
        barmode="overlay",
        xaxis=time_axis(SINCE, range=time_range(report)),
        yaxis=category_axis("", autorange="reversed", showgrid=False, categoryarray=rows),
    )
    return Figure(
        id="steps",
        title=title,
        note="Red outlines: the phase failed, or nobody knows how it ended.",
        table=_steps_table(report),
        data=tuple(traces),
        layout=drawn,
        height_px=130 + 34 * len(rows),
    )


def _bars(report: RolloutReport, kind: str, colour: str) -> Json | None:
    whole = len(report.steps) > MOST_DRAWN
    bars = [
        (step, span)
        for step in report.steps
        for span in (_as_one(step) if whole else step.spans)
        if KIND_OF[span.phase] == kind
    ]
    if not bars:
        return None
    began_s = report.started_at_s
    spans = [span for _, span in bars]
    return {
        "type": "bar", "orientation": "h", "name": "step" if whole else kind,
        "y": [_row(step) for step, _ in bars],
        "base": [span.from_s - began_s for span in spans],
        "x": [_seconds(span, report) for span in spans],
        "marker": {
            "color": colour,
            "line": {
                "color": [BAD if span.outcome != "ok" else colour for span in spans],
                "width": [2 if span.outcome != "ok" else 0 for span in spans],
            },
        },
        "hovertext": [
            label(f"step {span.step}, {', '.join(span.replicas[:4])}: {span.phase}, "
                  f"{seconds(_seconds(span, report))}")
            for span in spans
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _as_one(step: StepStory) -> Iterable[Span]:
    """Give a step as one bar; its last phase tells how it came out."""
    last = step.spans[-1]
    yield Span(
        step=step.step, wave=step.wave, replicas=step.replicas, regions=step.regions,
        back=step.back, phase="apply", from_s=step.from_s, to_s=step.to_s, outcome=last.outcome,
    )  # fmt: skip


def _steps_table(report: RolloutReport) -> Table:
    began_s = report.started_at_s
    head = ("step", "way", "wave", "replicas", "from", "took", "without soak", "phases", "why")
    rows = tuple(
        (
            str(step.step), "back" if step.back else "forwards", step.wave,
            ", ".join(step.replicas), seconds_of(step.from_s - began_s),
            MISSING if step.to_s is None else seconds(step.to_s - step.from_s),
            seconds(step.seconds),
            ", ".join(f"{span.phase} {seconds(_seconds(span, report))}" for span in step.spans),
            "; ".join(span.why for span in step.spans if span.outcome not in ("ok", None)),
        )
        for step in report.steps
    )  # fmt: skip
    return Table(head=head, rows=rows)


def _row(step: StepStory) -> str:
    return label(f"{step.wave}, back" if step.back else step.wave)


def _seconds(span: Span, report: RolloutReport) -> float:
    """Say how long a phase took; one that is open, until the record's last entry."""
    end_s = report.started_at_s + report.took_s if span.to_s is None else span.to_s
    return max(end_s - span.from_s, 0.0)
