"""A rack is well only when everything was seen and everything is as it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet.load import load_fleet
from fleet.racks.floors import load_floors
from fleet.racks.preflight import EXIT_CODES, Check, Evidence, preflight, worst
from fleet.racks.report import Disk, Fabric, Imex, NodeReport, read_report
from fleet.racks.seen import NodeSeen, RackSeen

CASES: Mapping[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "cases/preflight/racks.yaml").read_text()
)
HARDWARE = load_fleet(Path(__file__).parents[3] / "fleets/demo.yaml").hardware
CLIQUE = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31"


def node(number: int) -> NodeSeen:
    return NodeSeen(
        name=f"n{number:02d}",
        rack="r01",
        clique=f"{CLIQUE}.1",
        arch="arm64",
        gpus=4,
        kernel="6.12.37-61.amzn2023.aarch64",
        ready=True,
    )


def report(number: int) -> NodeReport:
    return NodeReport(
        schema="k3fleet-node-report/1",
        node=f"n{number:02d}",
        arch="aarch64",
        kernel="6.12.37-61.amzn2023.aarch64",
        driver="580.95.05",
        gpus=4,
        imex=Imex(state="masked", running=False),
        disk=Disk(path="/mnt/x", device="md127", kind="raid0", members=3, bytes=1),
        fabric=Fabric(cluster=CLIQUE, clique="1", state="Completed", status="Success"),
    )


def judged(case: Mapping[str, Any]) -> dict[str, Check]:
    """Check a full rack with the changes of a case, made to one node or to all."""
    numbers = range(case.get("nodes", 18))
    changed = set(numbers) if case.get("all") else {3}
    nodes = [replace(node(n), **case.get("node", {})) if n in changed else node(n) for n in numbers]
    reports = {}
    for n in numbers:
        told = report(n).model_dump(by_alias=True)
        if n in changed:
            told |= case.get("report", {})
        if not (n in changed and case.get("silent")):
            reports[f"n{n:02d}"] = NodeReport.model_validate(told)
    dra = {f"n{n:02d}": case.get("dra", "v0.5.1") if n in changed else "v0.5.1" for n in numbers}
    evidence = Evidence(reports=reports, dra={name: v for name, v in dra.items() if v})
    rack = RackSeen(id="r01", region="us", nodes=tuple(nodes))
    return {c.name: c for c in preflight(rack, HARDWARE, load_floors(), evidence)}


@pytest.mark.parametrize("name", CASES)
def test_each_fault_is_found_and_named(name: str) -> None:
    """Checks that a case does not name are well: one fault must not hide behind another."""
    case = CASES[name]
    found = judged(case["change"])
    named = {check.name: f"{check.verdict}: {check.says}" for check in found.values()}
    assert {k: v for k, v in named.items() if not v.startswith("ok")} == case["found"]
    assert worst(found.values()) == case["verdict"]


def test_a_rack_that_nobody_labelled_is_wrong() -> None:
    """It must not count as a rack without faults."""
    rack = RackSeen(id="r01", region="us", nodes=())
    checks = preflight(rack, HARDWARE, load_floors(), Evidence())
    assert [(c.name, c.verdict) for c in checks] == [("nodes", "wrong")]


@given(st.lists(st.sampled_from(["ok", "wrong", "unknown"])))
def test_unknown_is_never_well(verdicts: list[Any]) -> None:
    """Nothing at all is unknown too."""
    found = worst(Check(name="x", verdict=v, says="") for v in verdicts)
    assert (found == "ok") == (bool(verdicts) and set(verdicts) == {"ok"})
    assert (EXIT_CODES[found] == 1) == ("wrong" in verdicts)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no report: "),
        ("[]", "no report: "),
        ("x" * 5000, "a report of 5000 bytes, 4096 are allowed"),
        ("[" * 4000, "no report: "),
        ('{"schema": "k3fleet-node-report/9"}', "no report: schema: "),
    ],
)
def test_what_is_no_report_is_said(text: str, why: str) -> None:
    """It comes from a machine that may be broken, or worse."""
    found = read_report(text)
    assert isinstance(found, str)
    assert found.startswith(why)


def test_a_report_of_another_node_is_none() -> None:
    """A node cannot speak for its neighbour."""
    text = report(3).model_dump_json(by_alias=True)
    assert isinstance(read_report(text, "n03"), NodeReport)
    assert read_report(text, "n04") == "a report that calls itself n03"


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_no_content_breaks_the_reader(content: str | bytes) -> None:
    """Whatever it is, it is a report or a sentence."""
    assert isinstance(read_report(content), str | NodeReport)
