"""Write the report of a rehearsal: the page of its load test, with racks and steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.report.document import Report, read_report
from lab.report.keyfigures import key_figures
from lab.report.plots_steps import steps_figure
from lab.report.rackmap import rack_pictures
from lab.report.reason import verdict_reason
from loadtest.report.keyfigures import traffic_settings
from loadtest.report.page import PACKAGE, Page, load_figures, missing_parts, render_page, write_page

NO_EVENT = "No replica was lost while traffic ran."


def write_report(report: Mapping[str, Any] | Report, out_dir: Path) -> Path:
    """Write `report.html` into `out_dir` (made when missing) and return its path."""
    return write_page(render(read_report(report)), out_dir)


def render(report: Report) -> str:
    """Return the whole page; the same report gives the same bytes."""
    groups = (("release", report.release), ("router", report.router))
    page = Page(
        template="rehearsal.html.j2",
        packages=("lab.report", PACKAGE),
        reason=verdict_reason(report),
        key_figures=key_figures(report),
        missing=_missing(report),
        settings=traffic_settings(report, groups),
        figures={**load_figures(report), "steps": (steps_figure(report),)},
        no_event=NO_EVENT if report.load.requests else "No event was recorded.",
        parts={"racks": rack_pictures(report)},
    )
    return render_page(report, page)


def _missing(report: Report) -> tuple[str, ...]:
    lacks = {
        "No step is recorded.": not report.steps,
        "The racks were not read from the API server, so there is no rack map.": (
            not report.packing.racks
        ),
    }
    return (*(text for text, lacking in lacks.items() if lacking), *missing_parts(report))
