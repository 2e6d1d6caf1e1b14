"""Say in one sentence what decided the verdict of a rehearsal."""

from __future__ import annotations

from lab.report.document import Report
from loadtest.report import wording


def verdict_reason(report: Report) -> str:
    """Return the sentence: a step that failed, else gates, else the packing."""
    stopped = next((step for step in report.steps if step.status == "failed"), None)
    if stopped is not None:
        detail = f": {stopped.detail}" if stopped.detail else ""
        return f"The rehearsal stopped in step “{stopped.name}”{detail}"
    gate_failed = any(gate.status == "fail" for gate in report.gates)
    if report.packing.status == "violated" and not gate_failed:
        return "The scheduler did not pack the racks as planned."
    return wording.verdict_reason(report)
