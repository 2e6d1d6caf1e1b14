"""Show the verdict on a terminal: what decided it, what was slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lab.report.document import Report, read_report
from lab.report.reason import verdict_reason
from loadtest.report import wording
from loadtest.report.page import gate_rows

STYLE = {"go": "green", "no-go": "red", "invalid": "yellow", "unknown": "white"}
STATUS = {"pass": "green", "fail": "bold red", "skip": "dim"}
SLOWEST = 3


def terminal_summary(report: Mapping[str, Any] | Report) -> Group:
    """Return the renderables for `rich`: verdict, gates, hit per region, slowest steps."""
    found = read_report(report)
    parts: list[RenderableType] = [_banner(found)]
    note = wording.machine_note(found)
    if note:
        parts.append(Text(note, style="yellow"))
    parts += [Text(problem, style="red") for problem in found.packing.problems]
    if found.gates:
        parts.append(_gates(found))
    if found.load.regions:
        parts.append(_regions(found))
    lost = sum(event.what == "lost" for event in found.events)
    if lost:
        back = sum(event.what == "recovered" for event in found.events)
        parts.append(Text(f"Replicas lost {lost}, recovered {back}.", style="yellow"))
    if found.steps:
        parts.append(_slowest(found))
    return Group(*parts)


def _banner(report: Report) -> Panel:
    word = Text(wording.VERDICT_WORD[report.verdict].upper(), style="bold")
    text = Text.assemble(word, "  ", verdict_reason(report), "\n", wording.hit_sentence(report))
    return Panel(
        text, border_style=STYLE[report.verdict], title=Text(report.fleet), title_align="left"
    )


def _gates(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("gate", "kind"):
        table.add_column(head)
    for head in ("limit", "value"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for row in gate_rows(report.gates):
        style = STATUS[row.status]
        cells = (row.title, row.kind, row.limit, row.value)
        table.add_row(*(Text(cell) for cell in cells), Text(row.status, style=style))
    return table


def _regions(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("region")
    for head in ("requests", "errors", "achieved", "attainable", "ratio", "TTFT p95"):
        table.add_column(head, justify="right", no_wrap=True)
    for region in report.load.regions:
        cells = (
            region.name,
            wording.number(region.requests),
            wording.number(region.errors),
            wording.percent(region.hit.achieved),
            wording.percent(region.hit.attainable),
            wording.ratio(region.hit.ratio),
            wording.milliseconds(region.ttft_ms.p95),
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _slowest(report: Report) -> Text:
    timed = sorted(report.steps, key=lambda step: -(step.seconds or 0.0))[:SLOWEST]
    total = wording.seconds(sum(step.seconds or 0.0 for step in report.steps))
    slowest = ", ".join(f"{step.name} {wording.seconds(step.seconds)}" for step in timed)
    return Text(f"Took {total}; slowest: {slowest}.", style="dim")
