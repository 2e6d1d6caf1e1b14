"""Choose the few numbers of a rehearsal that a reader should see first."""

from __future__ import annotations

from lab.report.document import Report
from loadtest.report.keyfigures import KeyFigure, gate_status, traffic_figures
from loadtest.report.wording import MISSING, number, seconds


def key_figures(report: Report) -> tuple[KeyFigure, ...]:
    """Return the cards of the page: the traffic's, then the fleet's."""
    return (*traffic_figures(report), *_fleet_figures(report))


def _fleet_figures(report: Report) -> tuple[KeyFigure, ...]:
    load, totals = report.load, report.plan.totals
    known = {node.replica for rack in report.packing.racks for node in rack.nodes}
    counted = [replica for replica in load.replicas if replica.requests is not None]
    served = sum(1 for replica in counted if replica.requests and replica.name in known)
    total_s = sum(step.seconds or 0.0 for step in report.steps) if report.steps else None
    return (
        KeyFigure(
            name="replicas that served",
            value=f"{served} of {number(totals.replicas)}" if counted else MISSING,
            below=f"{number(totals.racks)} racks, {number(totals.gpus)} GPUs",
            status=gate_status(report, "served", "registered"),
        ),
        KeyFigure(
            name="time of the rehearsal",
            value=seconds(total_s),
            below=f"{seconds(load.window_s)} of traffic",
        ),
        KeyFigure(
            name="peak memory",
            value=number(report.machine.peak_memory_gib or None, "GiB"),
            below=f"{number(report.machine.cores)} cores, "
            f"{number(report.machine.memory_gib)} GiB in this machine",
        ),
    )
