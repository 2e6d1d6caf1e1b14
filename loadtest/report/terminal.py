"""Show the verdict on a terminal: what decided it, and the figures behind it."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from loadtest.report import wording
from loadtest.report.document import LoadReport
from loadtest.report.page import gate_rows

STYLE = {"go": "green", "no-go": "red", "invalid": "yellow", "unknown": "white"}
STATUS = {"pass": "green", "fail": "bold red", "skip": "dim"}


def load_summary(report: LoadReport) -> Group:
    """Return the renderables for `rich`: verdict, what to know first, gates, regions."""
    parts: list[RenderableType] = [banner(report, wording.verdict_reason(report))]
    if window := wording.window_sentence(report):
        parts.append(Text(window))
    parts += [Text(note, style="yellow") for note in report.notes]
    parts += machine_line(report)
    return Group(*parts, *load_parts(report))


def load_parts(report: LoadReport) -> list[RenderableType]:
    """Return what all reports show below the verdict."""
    parts: list[RenderableType] = []
    if report.gates:
        parts.append(_gates(report))
    if report.load.regions:
        parts.append(_regions(report))
    return parts


def machine_line(report: LoadReport) -> list[RenderableType]:
    """Return the warning that the machine was the limit, if it was."""
    note = wording.machine_note(report)
    return [Text(note, style="yellow")] if note else []


def banner(report: LoadReport, reason: str) -> Panel:
    """Return the verdict in a frame of its colour."""
    word = Text(wording.VERDICT_WORD[report.verdict].upper(), style="bold")
    lines = [wording.hit_sentence(report)]
    if report.gate_set:
        lines.append(f"Judged by the gates {report.gate_set}.")
    if conditions := wording.conditions(report):
        lines.append(conditions)
    text = Text.assemble(word, "  ", reason, "\n", "\n".join(lines))
    return Panel(
        text, border_style=STYLE[report.verdict], title=Text(report.fleet), title_align="left"
    )


def _gates(report: LoadReport) -> Table:
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


def _regions(report: LoadReport) -> Table:
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
