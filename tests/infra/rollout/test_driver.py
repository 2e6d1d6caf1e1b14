"""Driving a rollout: what is on disk when the process dies, and who may drive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rollout_world import NEW, OLD, REPLICAS, started

from fleet.errors import ApplyError, BusyError, ConfigError
from fleet.rollout.record import PHASES, Asked, Began, Entry
from fleet.rollout.state import Do, Over, Wait, read_state
from infra.rollout.driver import Result, drive
from infra.rollout.journal import Journal

ME = {"pid": "1", "host": "here"}


class Site:
    """Does what it is told, and remembers it."""

    def __init__(self, act: Callable[[Do], Result] = lambda _action: Result("ok")) -> None:
        self.done: list[tuple[str, str]] = []
        self.live = dict.fromkeys(REPLICAS, OLD)
        self._act = act

    def do(self, action: Do, stop: Callable[[], bool]) -> Result:
        result = self._act(action)
        self.done.append((action.phase, action.target))
        if action.phase == "apply" and result.outcome == "ok":
            self.live.update({place.replica: action.target for place in action.step.places})
        return Result("inconclusive", "asked to stop") if stop() else result


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "rollouts" / "rollout.jsonl")
    with made.held(ME):
        made.append(started(reruns=0))
    return made


def asked(command: str) -> Asked:
    return Asked.model_validate({"at_s": 1.0, "by": "me", "command": command})


def clock() -> float:
    return 1.0


def test_it_goes_to_the_end(journal: Journal) -> None:
    """Every step through every phase."""
    site = Site()
    assert drive(journal, site, clock=clock) == Over(status="done")
    assert set(site.live.values()) == {NEW}
    assert [phase for phase, _ in site.done[: len(PHASES)]] == list(PHASES)


def test_a_clock_that_is_set_moves_no_step(journal: Journal) -> None:
    """By NTP, an hour back: the order of the entries counts, and not their times."""
    times = iter([100.0, 101.0, 102.0, -3500.0])
    site = Site()
    assert drive(journal, site, clock=lambda: next(times, -3400.0)) == Over(status="done")
    assert [phase for phase, _ in site.done[: len(PHASES)]] == list(PHASES)
    assert set(site.live.values()) == {NEW}


def test_the_intent_is_on_disk_before_anything_is_touched(journal: Journal) -> None:
    """Else a kill in the middle of an update would leave no trace of it."""

    def act(action: Do) -> Result:
        assert Journal(journal.path).read()[-1] == Began(at_s=1.0, phase=action.phase)
        return Result("ok")

    drive(journal, Site(act), clock=clock)


def test_an_error_of_the_world_holds_with_its_words(journal: Journal) -> None:
    """A stack that is locked says nothing about the release."""

    def act(action: Do) -> Result:
        if action.phase == "apply":
            raise ApplyError("serving-us-east: up failed: locked.")
        return Result("ok")

    assert drive(journal, Site(act), clock=clock) == Wait(why="serving-us-east: up failed: locked.")


def test_a_request_while_it_runs_is_taken_between_two_phases(journal: Journal) -> None:
    """Nobody else writes into the record of a rollout that is under way."""
    other = Journal(journal.path)

    def act(action: Do) -> Result:
        if action.phase == "smoke" and action.target == NEW:
            assert other.ask(asked("roll-back"), ME)
        return Result("ok")

    site = Site(act)
    with journal.held(ME):
        assert drive(journal, site, clock=clock) == Over(status="rolled-back")
    assert set(site.live.values()) == {OLD}


def test_a_request_to_nobody_is_written_into_the_record(journal: Journal) -> None:
    """The next `resume` finds it."""
    with journal.held(ME):
        pass
    assert not journal.ask(asked("pause"), ME)
    assert read_state(journal.read()).status == "paused"


def test_a_request_is_not_lost_when_its_taker_dies(journal: Journal) -> None:
    """Renamed but not yet written: the next driver finishes it."""
    other = Journal(journal.path)
    with journal.held(ME):
        other.ask(asked("pause"), ME)
    inbox = journal.path.with_suffix(".asked")
    inbox.rename(inbox.with_suffix(".taken"))
    with journal.held(ME):
        journal.take_requests()
    assert read_state(journal.read()).status == "paused"


def test_two_operators_cannot_drive_one_rollout(journal: Journal) -> None:
    """The second sees who does, and what to do about it."""
    with (
        journal.held({"pid": "7", "host": "there"}),
        pytest.raises(BusyError, match="driven by pid 7, host there"),
        Journal(journal.path).held(ME),
    ):
        pass


def test_a_killed_driver_lets_go(journal: Journal) -> None:
    """No lock to remove by hand at three in the morning."""
    code = (
        "import sys, pathlib; from infra.rollout.journal import Journal\n"
        "with Journal(pathlib.Path(sys.argv[1])).held({'pid': 'child'}):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(journal.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(BusyError), journal.held(ME):
            pass
        child.send_signal(signal.SIGKILL)
    with journal.held(ME):
        pass


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_half_an_entry_never_happened(journal: Journal, cut: int) -> None:
    """The process died while it wrote; the next entry starts on a line of its own."""
    entries: list[Entry] = journal.read()
    torn = Began(at_s=1.0, phase="preflight").model_dump_json().encode()[:cut]
    with journal.path.open("ab") as file:
        file.write(torn)
    assert journal.read() == entries
    journal.append(Began(at_s=2.0, phase="preflight"))
    assert journal.read() == [*entries, Began(at_s=2.0, phase="preflight")]


def test_a_damaged_record_is_refused_with_its_line(journal: Journal) -> None:
    """A disk that lies must not be guessed at."""
    with journal.path.open("ab") as file:
        file.write(b'{"kind": "began"}\n')
    with pytest.raises(ConfigError, match=r"rollout\.jsonl:2: is no entry"):
        journal.read()
