"""Write the report of a rollout as one HTML file that needs nothing but a browser."""

from __future__ import annotations

from loadtest.report.keyfigures import KeyFigure
from loadtest.report.page import PACKAGE, filled
from loadtest.report.wording import MISSING, number, percent, seconds
from loadtest.rollout.document import RolloutReport
from loadtest.rollout.plots import figures
from loadtest.rollout.time_axis import moment

TEMPLATE = "rollout.html.j2"
# How a rollout stands, as the verdict's colours of the style sheet.
TONES = {"done": "go", "rolled-back": "no-go", "aborted": "no-go", "held": "invalid"}


def render(report: RolloutReport, version: str) -> str:
    """Return the whole page; the same report gives the same bytes."""
    return filled(
        TEMPLATE,
        ("loadtest.rollout", PACKAGE),
        figures(report),
        report=report,
        version=version,
        tone=TONES.get(report.status, ""),
        started=moment(report.started_at_s),
        keys=key_figures(report),
    )


def key_figures(report: RolloutReport) -> tuple[KeyFigure, ...]:
    """Choose the few numbers that a reader should see first."""
    forwards = [step for step in report.steps if not step.back and step.whole]
    known = [step.seconds for step in forwards if step.seconds is not None]
    mean_s = sum(known) / len(known) if known else None
    return (
        KeyFigure(
            name="took",
            value=seconds(report.took_s),
            below=f"the plan said {seconds(report.expected_s)}{_off(report)}",
        ),
        KeyFigure(
            name="a step, without soak",
            value=seconds(mean_s),
            below=f"mean of {number(len(known))} steps that went through",
        ),
        *(
            KeyFigure(
                name=f"served in {region.name}, at least",
                value=f"{number(region.fewest)} of {region.replicas}",
                below=f"the floor is {region.floor}",
                status="" if region.fewest is None
                else "pass" if region.fewest >= region.floor else "fail",
            )
            for region in report.regions
        ),
        _failed(report),
    )  # fmt: skip


def _failed(report: RolloutReport) -> KeyFigure:
    name = "requests of clients that failed meanwhile"
    if report.clients is None:
        return KeyFigure(name=name, value=MISSING, below="no load test was given")
    clients = report.clients
    classes = ", ".join(f"{count} {what}" for what, count in clients.by_class.items())
    return KeyFigure(
        name=name,
        value=f"{number(clients.failed_meanwhile)} of {number(clients.requests)}",
        below=classes or "none",
        status="fail" if clients.failed_meanwhile else "pass",
    )


def _off(report: RolloutReport) -> str:
    if not report.expected_s or report.status != "done":
        return ""
    return f", {percent(report.took_s / report.expected_s - 1)} off"
