"""Show the verdict of a rehearsal on a terminal: what decided it, what was slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from lab.report.document import Report, read_report
from lab.report.reason import verdict_reason
from loadtest.report import wording
from loadtest.report.terminal import banner, load_parts, machine_line

SLOWEST = 3


def terminal_summary(report: Mapping[str, Any] | Report) -> Group:
    """Return the renderables for `rich`: verdict, gates, hit per region, slowest steps."""
    found = read_report(report)
    parts: list[RenderableType] = [banner(found, verdict_reason(found)), *machine_line(found)]
    parts += [Text(note, style="yellow") for note in found.notes]
    parts += [Text(problem, style="red") for problem in found.packing.problems]
    parts += load_parts(found)
    lost = sum(event.what == "lost" for event in found.events)
    if lost:
        back = sum(event.what == "recovered" for event in found.events)
        parts.append(Text(f"Replicas lost {lost}, recovered {back}.", style="yellow"))
    if found.steps:
        parts.append(_slowest(found))
    return Group(*parts)


def _slowest(report: Report) -> Text:
    timed = sorted(report.steps, key=lambda step: -(step.seconds or 0.0))[:SLOWEST]
    total = wording.seconds(sum(step.seconds or 0.0 for step in report.steps))
    slowest = ", ".join(f"{step.name} {wording.seconds(step.seconds)}" for step in timed)
    return Text(f"Took {total}; slowest: {slowest}.", style="dim")
