"""Write the report as one HTML file that needs nothing but a browser.

The page carries plotly's own script, one script of ours and the numbers as
JSON. Its Content-Security-Policy names the two scripts by hash and allows no
network, so a name that came from a cluster can neither run nor phone home,
even if an escape were forgotten.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from loadtest.report import keyfigures, wording
from loadtest.report.document import Gate, LoadReport, read_load_report
from loadtest.report.keyfigures import (
    KeyFigure,
    error_classes,
    traffic_settings,
)
from loadtest.report.plots import Figure
from loadtest.report.plots_load import gap_figure, replica_figure, ttft_figure
from loadtest.report.plots_time import time_figures
from loadtest.report.timeline import numbered_events

REPORT_NAME = "report.html"
PACKAGE = "loadtest.report"
TEMPLATE = "report.html.j2"
MAX_TABLE_ROWS = 400  # past it a browser's table is slower than its plot
GATE_ORDER = {"fail": 0, "skip": 1, "pass": 2}
NOT_WATCHED = "Whether replicas were lost is not known: only a rehearsal watches them."
KIND_WORD = {"slo": "service", "validity": "validity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """One line of the gates table, as text."""

    title: str
    kind: str
    limit: str
    value: str
    status: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What one kind of report puts on the page beside what all have."""

    template: str = TEMPLATE
    packages: tuple[str, ...] = (PACKAGE,)
    """Where templates are looked for."""
    reason: str
    key_figures: tuple[KeyFigure, ...]
    missing: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    figures: Mapping[str, tuple[Figure, ...]]
    no_event: str = NOT_WATCHED
    """What is said where no event is known."""
    parts: Mapping[str, object] = field(default_factory=dict)
    """More of what its template shows."""


def write_load_report(report: Mapping[str, Any] | LoadReport, out_dir: Path) -> Path:
    """Write the page of a load test into `out_dir` and return its path."""
    return write_page(render_load_report(read_load_report(report)), out_dir)


def write_page(html: str, out_dir: Path) -> Path:
    """Write `report.html` into `out_dir` (made when missing) and return its path."""
    out_dir.mkdir(parents=True, exist_ok=True)
    path = out_dir / REPORT_NAME
    path.write_text(html, encoding="utf-8", newline="\n")
    return path


def render_load_report(report: LoadReport) -> str:
    """Return the whole page; the same report gives the same bytes."""
    page = Page(
        reason=wording.verdict_reason(report),
        key_figures=keyfigures.load_figures(report),
        missing=missing_parts(report),
        settings=traffic_settings(report),
        figures=load_figures(report),
    )
    return render_page(report, page)


def render_page(report: LoadReport, page: Page) -> str:
    """Fill the template of the page of a load."""
    return filled(
        page.template,
        page.packages,
        page.figures,
        report=report,
        started=wording.moment(report.started_at) or "at an unknown time",
        word=wording.VERDICT_WORD[report.verdict],
        reason=page.reason,
        hit_sentence=wording.hit_sentence(report),
        conditions=wording.conditions(report),
        window_sentence=wording.window_sentence(report),
        stages=stage_rows(report),
        machine_note=wording.machine_note(report),
        missing=page.missing,
        key_figures=page.key_figures,
        gates=gate_rows(report.gates),
        events=_event_rows(report),
        settings=page.settings,
        error_classes=error_classes(report),
        no_event=page.no_event,
        **page.parts,
    )


def filled(
    template: str,
    packages: tuple[str, ...],
    figures: Mapping[str, tuple[Figure, ...]],
    **parts: object,
) -> str:
    """Fill a template with figures, the scripts that draw them, and its own parts."""
    ours = _asset("plots.js")
    html = (
        _environment(packages)
        .get_template(template)
        .render(
            figures={
                name: [_short_table(figure) for figure in part] for name, part in figures.items()
            },
            drawn=[_drawn(figure) for part in figures.values() for figure in part if figure.data],
            policy=_policy(plotly_script(), ours),
            style=Markup(_asset("report.css")),  # noqa: S704  our own file
            plotly=Markup(plotly_script()),  # noqa: S704  plotly's own file
            script=Markup(ours),  # noqa: S704  our own file
            **parts,
        )
    )
    return html.encode("utf-8", "replace").decode("utf-8")


def gate_rows(gates: Iterable[Gate]) -> tuple[GateRow, ...]:
    """Return the gates as text, the failed ones first."""
    ordered = sorted(gates, key=lambda gate: GATE_ORDER.get(gate.status, 1))
    return tuple(
        GateRow(
            title=wording.gate_title(gate),
            kind=KIND_WORD.get(gate.kind, gate.kind),
            limit=wording.limit(gate),
            value=wording.gate_number(gate.value),
            status=gate.status if gate.status in GATE_ORDER else "skip",
            why=gate.why,
        )
        for gate in ordered
    )


def stage_rows(report: LoadReport) -> tuple[tuple[str, ...], ...]:
    """Return the stages as text: name, times, whether judged, and what was sent in each."""
    return tuple(
        (
            stage.name,
            f"{wording.seconds(stage.from_s)} to {wording.seconds(stage.to_s)}",
            "judged" if stage.judged else "not judged",
            wording.number(stage.requests),
            wording.number(stage.errors),
            wording.number(stage.requests_per_s),
            wording.milliseconds(stage.ttft_ms.p50),
            wording.milliseconds(stage.ttft_ms.p95),
        )
        for stage in report.stages
    )


@cache
def plotly_script() -> str:
    """Return plotly's script as an HTML parser hands it on, so that its hash holds."""
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def load_figures(report: LoadReport) -> dict[str, tuple[Figure, ...]]:
    """Draw the traffic of a run, by section of the page."""
    *hits, throughput = time_figures(report)
    load = report.load
    context = ttft_figure(
        "ttft-context", "Time to first token by context", "prompt tokens", load.ttft_by_context
    )
    turn = ttft_figure("ttft-turn", "Time to first token by turn", "turn", load.ttft_by_turn)
    return {
        "hit": tuple(hits),
        "throughput": (throughput,),
        "latency": (context, turn, gap_figure(report)),
        "replicas": (replica_figure(report),),
    }


def _short_table(figure: Figure) -> Figure:
    rows = figure.table.rows
    if len(rows) <= MAX_TABLE_ROWS:
        return figure
    left = ("…", f"{len(rows) - MAX_TABLE_ROWS} more rows in the JSON")
    filler = ("",) * max(0, len(figure.table.head) - len(left))
    return replace(
        figure, table=replace(figure.table, rows=(*rows[:MAX_TABLE_ROWS], (*left, *filler)))
    )


def _drawn(figure: Figure) -> dict[str, Any]:
    return {"id": figure.id, "data": figure.data, "layout": figure.layout}


def _event_rows(report: LoadReport) -> tuple[dict[str, str], ...]:
    return tuple(
        {
            "mark": "" if count is None else str(count),
            "at": wording.seconds(event.t_s),
            "what": event.what,
            "style": event.what if event.what in ("lost", "recovered") else "other",
            "who": event.replica,
            "region": event.region,
            "detail": event.detail,
        }
        for count, event in numbered_events(report)
    )


def missing_parts(report: LoadReport) -> tuple[str, ...]:
    """Return what the report should hold and does not, in sentences."""
    load = report.load
    lacks = {
        "No request was sent or finished, so all figures of the traffic are missing.": (
            not load.requests
        ),
        "No gate was judged.": not report.gates,
    }
    unreadable = [
        f"The section “{name}” has an unexpected shape and is left out."
        for name in report.unreadable
    ]
    if load.requests and load.replicas and all(r.requests is None for r in load.replicas):
        unreadable.append("No answer says which replica gave it, so shares are missing.")
    silent = [replica.name for replica in load.replicas if replica.requests == 0]
    if load.requests and silent:
        unreadable.append(f"These replicas served no request: {', '.join(silent[:20])}.")
    return (*(text for text, lacking in lacks.items() if lacking), *unreadable)


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    # plotly styles its SVG with style attributes and saves pictures through data and blob URLs.
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _environment(packages: tuple[str, ...]) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> str:
    return resources.files(PACKAGE).joinpath(name).read_text(encoding="utf-8")
