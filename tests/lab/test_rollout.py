"""Who drives a rollout, and who only asks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rollout_world import started

from cli.wiring import surroundings
from fleet.errors import BusyError, ConfigError, LabError
from fleet.load import load_fleet
from fleet.rollout.record import Asked
from infra.rollout.journal import Journal
from infra.rollout.machine import holder
from infra.rollout.rollouts import Rollouts
from infra.rollout.steering import ask, require_latest, state_of
from lab.rollout import LabVenue
from lab.state import LabState, write_state

DEMO = Path(__file__).parents[2] / "fleets/demo.yaml"


def lab_state(folder: Path, **changes: Any) -> LabState:
    return LabState.model_validate(
        {
            "lab_id": "nobody-has-this-mark",
            "fleet_file": DEMO,
            "started_at": datetime(2026, 1, 1, tzinfo=UTC),
            "kept": True,
            "regions": {},
            "namespace": "k3",
            "log_dir": folder,
            "env_file": folder / "env.sh",
            "load_settings": folder / "settings.json",
        }
        | changes
    )


@pytest.fixture
def rollouts(tmp_path: Path) -> Rollouts:
    """Give a lab that only has a folder."""
    fleet = load_fleet(DEMO)
    around = replace(surroundings(fleet, tmp_path), environ={})
    return Rollouts(
        venue=LabVenue(fleet=fleet, state=lab_state(tmp_path), around=around, lab_dir=tmp_path)
    )


def test_without_a_lab_it_is_said_how_to_start_one(tmp_path: Path) -> None:
    """That nothing is up is said before anything else."""
    fleet = load_fleet(DEMO)
    with pytest.raises(LabError, match="lab up"):
        LabVenue.of(fleet, surroundings(fleet, tmp_path))


def test_a_rehearsal_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdict would be about two releases."""
    write_state(tmp_path, lab_state(tmp_path, kept=False))
    monkeypatch.setattr(LabState, "alive", True)
    fleet = load_fleet(DEMO)
    with pytest.raises(ConfigError, match="rehearsal"):
        LabVenue.of(fleet, surroundings(fleet, tmp_path))


def test_a_second_rollout_waits_for_the_end_of_the_first(rollouts: Rollouts) -> None:
    """Two of them would turn each other's replicas."""
    first = rollouts.begin(started(), holder(), take_over=False)
    with pytest.raises(ConfigError, match="Finish it first"):
        rollouts.begin(started(), holder(), take_over=False)
    assert not ask(first, "abort")
    second = rollouts.begin(started(), holder(), take_over=False)
    assert [first.path.name, second.path.name] == ["0001.jsonl", "0002.jsonl"]
    assert require_latest(rollouts).path == second.path


def test_a_start_is_one_at_a_time(rollouts: Rollouts) -> None:
    """Between the look and the first entry somebody else could start one, too."""
    with Journal(rollouts.folder / "start").held({"pid": "7"}), pytest.raises(BusyError):
        rollouts.begin(started(), holder(), take_over=False)


def test_what_was_asked_and_not_taken_counts(rollouts: Rollouts) -> None:
    """A second abort while the driver is in a long phase is answered with what will be."""
    journal = rollouts.begin(started(), holder(), take_over=False)
    with journal.held(holder()):
        assert ask(journal, "abort")
        assert state_of(journal).status == "aborted"
        with pytest.raises(ConfigError, match="the rollout is aborted"):
            ask(journal, "abort")
    assert isinstance(journal.requests()[0], Asked)


def test_there_is_nothing_to_take_back_yet(rollouts: Rollouts) -> None:
    """And it is said where to look."""
    with pytest.raises(ConfigError, match="rollout start"):
        require_latest(rollouts)
    journal = rollouts.begin(started(), holder(), take_over=False)
    with pytest.raises(ConfigError, match="no replica has the new release"):
        ask(journal, "roll-back")


def test_another_working_copy_keeps_its_files_apart(tmp_path: Path) -> None:
    """By the lab: records of one that is gone must not look like those of the next."""
    fleet = load_fleet(DEMO)
    around = replace(surroundings(fleet, tmp_path / "mine"), environ={})
    state = lab_state(tmp_path / "theirs", lab_id="abc /somewhere")
    joined = LabVenue(fleet=fleet, state=state, around=around, lab_dir=tmp_path / "theirs")
    own = replace(joined, lab_dir=tmp_path / "mine")
    assert Rollouts(venue=joined).folder == tmp_path / "mine/joined/abc/rollouts"
    assert Rollouts(venue=own).folder == tmp_path / "mine/lab/rollouts"
