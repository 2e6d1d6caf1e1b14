"""Claims about the files that other programs read."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from run_folders import HOSTILE, make_run, report_of, sessions_of

from loadtest.judge.gates import NAMED_GATES, Gate, GateSet, load_gates
from loadtest.judge.judging import judge_run
from loadtest.report.document import read_load_report
from loadtest.report.keyfigures import load_figures
from loadtest.report.page import NOT_WATCHED
from loadtest.report.plots_time import time_figures
from loadtest.report.tables import cell
from loadtest.report.wording import judged_part, verdict_reason
from loadtest.report.write import write_files
from loadtest.results.run_facts import RunFacts
from loadtest.results.saved_run import read_saved

Make = Callable[..., Any]


@pytest.fixture
def written(tmp_path: Path, make_record: Make, make_generator: Make) -> Make:
    """Judge a run and write all files of its report."""

    def write(*gates: Gate, count: int = 20, facts: RunFacts | None = None, **fields: Any) -> Path:
        make_run(tmp_path, sessions_of(make_record(**fields), count), make_generator(), facts)
        chosen = gates or load_gates(NAMED_GATES["endpoint"])
        write_files(
            judge_run(read_saved(tmp_path), GateSet(gates=tuple(chosen))).report(), tmp_path
        )
        return tmp_path

    return write


def suite_of(folder: Path) -> ET.Element:
    return ET.parse(folder / "junit.xml").getroot()  # noqa: S314  we wrote it


def gate(identity: str, **changes: Any) -> Gate:
    fields = {"title": "T", "kind": "slo", "metric": "requests", "op": ">=", "limit": 1.0}
    return Gate.model_validate({"id": identity, "why": "because", **fields, **changes})


def test_every_gate_is_a_test_case(written: Make) -> None:
    """A CI server shows a no-go as a failure, and a run that says nothing as an error."""
    folder = written(
        gate("fine"),
        gate("slow", limit=1e9),
        gate("late", kind="validity", limit=1e9),
        gate("unmeasured", metric="coverage.served"),
    )
    suite = suite_of(folder)
    outcomes = {case.get("name"): [child.tag for child in case] for case in suite}
    assert outcomes == {"fine": [], "slow": ["failure"], "late": ["error"], "unmeasured": ["error"]}
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "2")
    (failure,) = (child for child in suite.iter("failure"))
    assert failure.get("message") == "T is 60, the limit is ≥ 1,000,000,000"
    assert failure.text == "because"


def test_hostile_names_stay_names(written: Make) -> None:
    """They come from answers of servers that we do not trust."""
    folder = written(
        facts=RunFacts(name=HOSTILE, notes=(HOSTILE,), unknown=(HOSTILE,)),
        region=HOSTILE,
        worker=HOSTILE,
    )
    name = suite_of(folder).get("name") or ""
    assert "\x1b" not in name
    assert "<img" not in (folder / "report.html").read_text()
    rows = list(csv.DictReader((folder / "replicas.csv").open(newline="")))
    assert not any("\x1b" in value or "\u202e" in value for row in rows for value in row.values())


def test_no_cell_is_a_formula(written: Make) -> None:
    """A spreadsheet would compute it, with the rights of its reader."""
    folder = written(region='=HYPERLINK("http://x")')
    row = next(csv.DictReader((folder / "timeline.csv").open(newline="")))
    assert row["region"].startswith("'=")


def test_buckets_are_rows(written: Make) -> None:
    """Each latency by context and by turn, with how many requests it is made of."""
    rows = list(csv.DictReader((written() / "buckets.csv").open(newline="")))
    found = {(r["by"], r["bucket"]): r["n"] for r in rows if r["metric"] == "ttft"}
    assert found["context", "0-1k"] == "60"
    assert (found["turn", "1"], found["turn", "2-5"]) == ("20", "40")


def test_cells_are_as_exact_as_they_were_measured() -> None:
    """A count has no fraction, and no clock measures a nanosecond."""
    assert [cell(337.0), cell(158.335849), cell(None)] == [337, 158.336, None]


def test_gates_without_data_are_told_beside_those_that_failed(written: Make) -> None:
    """A headline of one failure hid that four were not measured."""
    folder = written(gate("slow", limit=1e9), gate("unmeasured", metric="coverage.served"))
    reason = verdict_reason(read_load_report(report_of(folder)))
    assert reason.startswith("1 of 2 gates failed: ")
    assert reason.endswith("1 could not be measured.")


def test_a_load_test_does_not_say_that_no_replica_was_lost(written: Make) -> None:
    """It did not look."""
    html = (written() / "report.html").read_text()
    assert "No replica was lost" not in html
    assert NOT_WATCHED in html


def test_figures_that_were_not_measured_have_no_card(written: Make) -> None:
    """Without service levels there is no goodput to show."""
    raw = report_of(written())
    assert "goodput" not in [card.name for card in load_figures(read_load_report(raw))]
    raw["load"]["goodput"]["share"] = 0.97
    assert "goodput" in [card.name for card in load_figures(read_load_report(raw))]


@pytest.fixture
def staged(tmp_path: Path, make_record: Make, make_generator: Make) -> dict[str, Any]:
    """Judge a run of 45 s whose soak is from 18 s to 38 s."""
    stages = [("warm-up", 0.0), ("soak", 18.0), ("drain", 38.0)]
    records = [make_record(sent_s=float(second)) for second in range(45)]
    make_run(tmp_path, records, make_generator(duration_s=45.0, stages=stages))
    gates = GateSet(gates=tuple(load_gates(NAMED_GATES["endpoint"])))
    return judge_run(read_saved(tmp_path), gates).report()


def test_a_staged_run_is_drawn_from_start_to_end(staged: dict[str, Any]) -> None:
    """Its figures are of the soak, and a plot that ends early shows the warm-up alone."""
    report = read_load_report(staged)
    assert (report.load.window_s, report.load.requests) == (20.0, 20)
    for figure in time_figures(report):
        assert figure.layout is not None
        assert max(figure.data[0]["x"]) > 38
        marks = [shape["x0"] for shape in figure.layout["shapes"] if shape["type"] == "line"]
        assert {0.0, 18.0, 38.0} <= set(marks)
        (tint,) = (shape for shape in figure.layout["shapes"] if shape["type"] == "rect")
        assert (tint["x0"], tint["x1"]) == (18.0, 38.0)


def test_the_judged_stages_are_told_from_the_others(staged: dict[str, Any]) -> None:
    """Who reads the verdict must know that it is not of the whole run."""
    stages = {stage["name"]: (stage["judged"], stage["requests"]) for stage in staged["stages"]}
    assert stages == {"warm-up": (False, 18), "soak": (True, 20), "drain": (False, 7)}
    assert judged_part(read_load_report(staged)) == "Judged part (soak, 18.0 s to 38.0 s of 45.0 s)"


def test_the_page_of_a_load_test_has_no_racks(written: Make) -> None:
    """Nobody packed any."""
    html = (written() / "report.html").read_text()
    assert "load test of demo" in html
    assert 'id="racks"' not in html
    assert 'id="step-times"' not in html


def test_the_json_says_what_it_is(written: Make) -> None:
    """A reader of later versions needs to know which it has."""
    folder = written()
    report = json.loads((folder / "report.json").read_text())
    assert (report["kind"], report["schema"], report["verdict"]) == ("loadtest", 1, "go")
    assert json.loads((folder / "summary.json").read_text()) == report["load"]
