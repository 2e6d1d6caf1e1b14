"""A load test of a lab that stays up: run, judged again, and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Ended, Here

from cli.main import main

pytestmark = pytest.mark.lab

GATES = """\
extends: rehearsal
# Two cores carry the fleet too: what the machine cannot do is not what this test is about.
without: [generator-lag, generator-cpu]
"""


@pytest.fixture(scope="module")
def fleet(shared: Here) -> Iterator[Path]:
    """Bring the small fleet up, and end it."""
    path = shared.fleet()
    (shared.folder / "gates.yaml").write_text(GATES)
    ended = shared.run("lab", "up", str(path))
    assert ended.code == 0, ended.err
    yield path
    assert shared.run("lab", "down", str(path)).code == 0


def load(shared: Here, fleet: Path, name: str, *words: str) -> tuple[Ended, dict[str, Any]]:
    """Make a load of some seconds."""
    ended = shared.run(
        "loadtest", "run", str(fleet), "--duration", "20s", "--users", "8", *words,
        "--gates", str(shared.folder / "gates.yaml"), "--out", str(shared.folder / name),
        "-o", "json",
    )  # fmt: skip
    assert ended.code in {0, 1, 2}, ended.err
    return ended, json.loads(ended.out)


def test_a_lab_is_judged_and_compared_with_itself(shared: Here, fleet: Path) -> None:
    """Every replica is known by name; the same seed twice gives pairs of the same steps."""
    ended, first = load(shared, fleet, "first")
    assert (ended.code, first["verdict"]) == (0, "go"), first["gates"]
    served = {row["name"]: row["requests"] for row in first["load"]["replicas"]}
    assert len(served) == 7
    assert first["load"]["coverage"] == {"registered": 1.0, "served": 1.0}
    assert any("GPUs" in text for text in first["mocked"])
    load(shared, fleet, "second")
    folders = [str(shared.folder / name) for name in ("first", "second")]
    assert main(["loadtest", "report", folders[0], "--out", str(shared.folder / "again")]) == 0
    again = json.loads((shared.folder / "again" / "report.json").read_text())
    assert again["load"] == first["load"]
    assert main(["loadtest", "compare", *folders]) in {0, 1}  # two runs on a busy machine


def test_a_load_of_one_region_more_than_the_lab_has_is_refused(
    shared: Here, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fleet file may have been changed since the lab came up."""
    other = shared.folder / "other.yaml"
    other.write_text(
        fleet.read_text() + "  - name: ap\n    racks:\n      - {id: ap1-r01, replicas: 1}\n"
    )
    words = ["loadtest", "run", str(other), "--work-dir", str(shared.work_dir)]
    assert main(words) == 3
    assert "region 'ap' is not in the running lab" in capsys.readouterr().err
