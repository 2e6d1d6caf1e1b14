"""Write the gates as JUnit XML: what a CI server shows without being taught."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from loadtest.report.document import Gate, LoadReport
from loadtest.report.wording import gate_number, gate_title, limit

JUNIT_FILE = "junit.xml"


def write_junit(report: LoadReport, folder: Path) -> None:
    """Write junit.xml: a gate is a test case.

    A service gate that failed is a failure. A validity gate that failed, or a gate that could not
    be measured, is an error: the run says nothing then.
    """
    suite = ET.Element(
        "testsuite",
        name=f"k3fleet loadtest {report.fleet}".strip(),
        tests=str(len(report.gates)),
        failures=str(sum(_outcome(gate) == "failure" for gate in report.gates)),
        errors=str(sum(_outcome(gate) == "error" for gate in report.gates)),
        time=f"{report.load.window_s or 0.0:.3f}",
        timestamp=report.started_at,
    )
    for gate in report.gates:
        _add_case(suite, gate)
    ET.indent(suite)
    ET.ElementTree(suite).write(folder / JUNIT_FILE, encoding="utf-8", xml_declaration=True)


def _add_case(suite: ET.Element, gate: Gate) -> None:
    case = ET.SubElement(suite, "testcase", classname=gate.kind or "gate", name=gate.id)
    outcome = _outcome(gate)
    if not outcome:
        return
    measured = "was not measured" if gate.value is None else f"is {gate_number(gate.value)}"
    message = f"{gate_title(gate)} {measured}, the limit is {limit(gate)}"
    ET.SubElement(case, outcome, message=message, type=gate.status).text = gate.why


def _outcome(gate: Gate) -> str:
    if gate.status == "pass":
        return ""
    return "failure" if gate.status == "fail" and gate.kind != "validity" else "error"
