"""Where a roll-back leads, and what it refuses before anything is touched."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from rollout_world import World, started

from cli import rollout_drive
from cli.main import main
from cli.rollout_drive import known_release, leads_back_to
from fleet.errors import ConfigError
from fleet.load import load_release
from fleet.release import release_id
from fleet.rollout.record import PHASES, Began, Ended, RecordedStep
from infra.rollout.rollouts import Rollouts

MINE = "extends: vllm-tp8-dcp8\nname: mine\nmax_num_seqs: 64\n"


@pytest.fixture
def mine(rollouts: Rollouts, tmp_path: Path) -> str:
    """Give the id of a release that an earlier rollout brought out; its file is beside ours."""
    file = tmp_path / "mine.yaml"
    file.write_text(MINE)
    identity = release_id(load_release(str(file), beside=file))
    first = started().model_copy(update={"releases": {identity: str(file)}})
    rollouts.journal(1).append(first)
    return identity


def test_a_release_of_the_history_is_found_by_its_id_and_its_name(
    rollouts: Rollouts, mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history shows ids; people remember names."""
    assert known_release(rollouts, mine) == str(tmp_path / "mine.yaml")
    own = rollouts.fleet.release_id
    assert known_release(rollouts, own) == rollouts.fleet.spec.release
    assert known_release(rollouts, rollouts.fleet.spec.release) == rollouts.fleet.spec.release
    fleet = replace(rollouts.fleet, path=tmp_path / "fleet.yaml")
    moved = Rollouts(venue=replace(rollouts.venue, fleet=fleet))  # type: ignore[type-var]
    first = started().model_copy(update={"releases": {mine: "./mine.yaml"}})
    moved.journal(2).append(first)
    monkeypatch.chdir(tmp_path)
    assert known_release(moved, "mine.yaml") == "./mine.yaml"


def test_what_the_fleet_has_not_had_is_no_way_back(rollouts: Rollouts, mine: str) -> None:
    """It is a rollout, with all that belongs to one; the known ones are named."""
    with pytest.raises(ConfigError, match=f"has not had it. Choose one of: .*{mine}"):
        known_release(rollouts, "vllm-tp8")


def test_a_release_that_cannot_be_read_any_more_is_refused(
    rollouts: Rollouts, mine: str, tmp_path: Path
) -> None:
    """Before a replica is taken out of routing; one that is another by now is as bad."""
    (tmp_path / "mine.yaml").write_text(MINE.replace("64", "65"))
    with pytest.raises(ConfigError, match="Restore the file"):
        known_release(rollouts, mine)
    (tmp_path / "mine.yaml").unlink()
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        known_release(rollouts, mine)


def test_the_release_before_is_reached_by_turning_back() -> None:
    """The latest replicas first; any other release needs a way of its own."""
    world = World(record=[started()])
    assert leads_back_to(world.state, "old-1")  # not over: nothing else may be begun
    for _ in range(len(PHASES)):
        world.go()
    assert leads_back_to(world.state, "old-1")
    assert not leads_back_to(world.state, "older-0")
    world.ask("roll-back")
    for _ in range(len(PHASES)):
        world.go()
    assert not leads_back_to(world.state, "old-1")  # it was turned back already


def test_a_rollout_of_frontends_only_is_turned_back_too() -> None:
    """No replica has the new release, and the frontends do: no rollout of its own is needed."""
    step = RecordedStep(wave="rest", shared="a")
    world = World(record=[started().model_copy(update={"steps": (step,)})])
    for _ in range(len(PHASES)):
        world.go()
    assert leads_back_to(world.state, "old-1")


@pytest.mark.parametrize(
    ("words", "driven"),
    [
        (("rollout", "pause"), False),
        (("rollout", "abort"), False),
        (("rollout", "pause"), True),
        (("rollout", "abort"), True),
        (("rollback", "--yes"), True),
    ],
)
def test_what_is_asked_of_a_driver_is_one_json_object(
    rollouts: Rollouts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    driven: bool,
) -> None:
    """A pipeline reads how it stands, whether somebody drives or nobody does."""
    monkeypatch.setattr(rollout_drive, "rollouts_of", lambda *_: rollouts)
    own = rollouts.fleet.release_id
    journal = rollouts.journal(1)
    sources = {own: rollouts.fleet.spec.release}
    journal.append(started().model_copy(update={"old": own, "releases": sources}))
    for phase in ("preflight", "drain", "assign"):
        journal.append(Began(at_s=0.0, phase=phase))
        if phase != "assign":
            journal.append(Ended(at_s=0.0, phase=phase, outcome="ok"))
    with rollouts.journal(1).held_here({"pid": "1"}) if driven else nullcontext():
        assert main([*words, str(rollouts.fleet.path), "-o", "json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["rollout"] == 1
    assert ("driver was asked" in err) is driven
    if words[0] == "rollback":
        assert told["way"] == "back"
