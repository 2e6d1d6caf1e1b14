"""What people, or a kill, leave in the folder of records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rollout_world import started

from cli import rollout_history, rollout_report, rollout_status
from cli.main import main
from fleet.rollout.record import Began
from infra.rollout.rollouts import Rollouts

COMMANDS = {
    "history": ("history",),
    "report": ("rollout", "report"),
    "status": ("rollout", "status"),
}


@pytest.fixture
def here(rollouts: Rollouts, monkeypatch: pytest.MonkeyPatch) -> Rollouts:
    """Let the commands find a rollout that was begun."""
    for module in (rollout_history, rollout_report, rollout_status):
        monkeypatch.setattr(module, "rollouts_of", lambda *_: rollouts)
    rollouts.journal(1).append(started())
    return rollouts


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_record_is_passed_over(
    here: Rollouts, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A copy for a colleague, and the first line of a driver that was killed in it."""
    (here.folder / "copy of 0001.jsonl").write_text("x")
    (here.folder / "²²²².jsonl").write_text("x")
    (here.folder / "0007.jsonl").mkdir()
    (here.folder / "0002.jsonl").write_text('{"kind": "star')
    (here.folder / "0001.figures").mkdir()
    assert main([*COMMANDS[command], str(here.fleet.path), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    one = told[0] if command == "history" else told
    assert one.get("number", one.get("rollout")) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_record_that_no_rollout_wrote_is_named_by_its_file(
    here: Rollouts, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Of twenty files, one has to be restored."""
    here.journal(1).append(Began(at_s=0.0, phase="smoke"))
    assert main([*COMMANDS[command], str(here.fleet.path)]) == 3
    said = capsys.readouterr().err
    assert said.count("0001.jsonl: record, entry 2: phase smoke began at preflight") == 1


def test_a_page_that_cannot_be_there_is_said(
    here: Rollouts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name was mistyped; it is no bug."""
    (tmp_path / "file").write_text("")
    words = ("--out", str(tmp_path / "file/page.html"))
    assert main(["rollout", "report", str(here.fleet.path), *words]) == 3
    assert "is no folder. Name another file" in capsys.readouterr().err
