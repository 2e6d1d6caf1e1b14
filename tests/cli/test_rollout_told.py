"""How a rollout is told: events for programs, and where a release is read from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from rollout_world import World, started

from cli.rollout_plan import named_release
from cli.rollout_told import Notices, notices, telling
from fleet.errors import ConfigError
from fleet.rollout.record import Began, Ended
from fleet.rollout.state import Do, Over
from infra.rollout.journal import Journal

DEMO = str(Path(__file__).parents[2] / "fleets/demo.yaml")


def test_every_event_is_a_line_that_says_what_it_is_about(tmp_path: Path) -> None:
    """A dashboard reads it while the rollout runs; an earlier driver's events stay."""
    action = World(record=[started()]).action
    assert isinstance(action, Do)
    file = tmp_path / "events.jsonl"
    file.write_text("{}\n")
    with telling(file) as say:
        say(Began(at_s=1.0, phase="drain"), action)
        say(Ended(at_s=3.0, phase="drain", outcome="failed", why="late"), action)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0] == {}
    assert lines[2] == {
        "kind": "ended",
        "at_s": 3.0,
        "phase": "drain",
        "outcome": "failed",
        "why": "late",
        "wave": "canary",
        "replicas": ["a1-0"],
        "release": "new-2",
    }


def test_events_that_nobody_takes_any_more_end_no_rollout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A full disk, or a reader that has gone, would leave a replica drained over night."""
    action = World(record=[started()]).action
    assert isinstance(action, Do)
    with telling(Path("/dev/full")) as say:
        for at_s in (1.0, 2.0):
            say(Ended(at_s=at_s, phase="drain", outcome="ok"), action)
    said = capsys.readouterr().err
    assert said.count("--events /dev/full: No space left on device; the rollout goes on") == 1


def test_a_webhook_hears_what_people_have_to_know(tmp_path: Path) -> None:
    """Not every phase: a phone that rings for each `ok` is switched off."""
    journal = Journal(tmp_path / "0003.jsonl")
    journal.append(started())
    heard: list[Mapping[str, object]] = []
    tell = Notices("demo", journal, heard.append)
    action = World(record=[started()]).action
    assert isinstance(action, Do)
    tell.phase(Began(at_s=1.0, phase="smoke"), action)
    tell.phase(Ended(at_s=2.0, phase="drain", outcome="ok"), action)
    tell.phase(Ended(at_s=3.0, phase="smoke", outcome="failed", why="mute"), action)
    tell.came(Over(status="rolled-back"))
    tell.came(None)
    assert heard[0] == {
        "fleet": "demo",
        "rollout": 3,
        "old": "old-1",
        "new": "new-2",
        "event": "failed",
        "why": "mute",
        "phase": "smoke",
        "replicas": ["a1-0"],
        "text": "demo: rollout 3, old-1 -> new-2: failed: mute",
    }
    assert [event["event"] for event in heard] == ["failed", "rolled-back"]


def test_a_secret_address_is_of_the_environment_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has it may post there."""
    journal = Journal(tmp_path / "0003.jsonl")
    journal.append(started())
    monkeypatch.setenv("K3FLEET_WEBHOOK", "T00/B00/secret")
    with (
        pytest.raises(ConfigError, match="K3FLEET_WEBHOOK: is no http") as caught,
        notices("demo", journal, lambda _text: None),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_a_file_that_cannot_be_written_is_said_before_anything_is_done(tmp_path: Path) -> None:
    """Not in the middle of an update."""
    with pytest.raises(ConfigError, match="Name another file"), telling(tmp_path / "no/events"):
        pass


def test_a_release_is_named_from_the_fleet_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the record fits every working copy, wherever it lies."""
    monkeypatch.chdir(tmp_path)
    assert named_release("releases/a.yaml", Path("fleets/demo.yaml")) == "./../releases/a.yaml"
    absolute = str(tmp_path / "fleets/b.yaml")
    assert named_release(absolute, Path("fleets/demo.yaml")) == "./b.yaml"
    assert named_release("vllm-tp8-dcp8", Path("fleets/demo.yaml")) == "vllm-tp8-dcp8"
