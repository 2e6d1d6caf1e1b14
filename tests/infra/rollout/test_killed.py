"""Drivers that die between any two writes, each followed by one of another working copy.

A write is to an object of a region (record, lease, request), to the record's file, or to what the
rollout is about. A driver dies before it, or behind it and before it hears of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from rollout_copies import ME, Fleet, Life
from rollout_world import FLEET, NEW, PARTS, REPLICAS, KilledError, World, started

from fleet.rollout.record import PHASES, Asked, Ended, Entry
from fleet.rollout.state import Do, Over, Wait
from infra.rollout.driver import Result, drive

# Two leases, the record brought to both regions, an intent, the phase, its outcome: a driver that
# lives for fewer touches gets nothing done.
ONE_PHASE = 26
# The same, and the next intent: behind it the boundaries are those of another phase.
FIRST_TWO = 40
OTHER = {"anna": "ben", "ben": "anna"}


class Rollout:
    """A rollout, what it is about, and the drivers that follow each other."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.world = World(record=[started(reruns=0)])
        self.seen: list[tuple[Entry, ...]] = []
        self._drivers = cycle(OTHER)
        journal = fleet.copy("ben")
        with journal.held(ME):
            journal.append(started(reruns=0), fleet.regions)

    def do(self, action: Do, stop: Callable[[], bool]) -> Result:
        return Result(self.world.act(action, "ok", self.fleet.life.touch))

    def drives(self, life: Life) -> Wait | Over | None:
        """Let the next copy drive; None: it died."""
        who = next(self._drivers)
        self.fleet.life = life
        journal = self.fleet.copy(who, OTHER[who])
        try:
            with journal.held(ME):
                return drive(journal, self, clock=lambda: 1.0)
        except KilledError:
            return None
        finally:
            self.fleet.life = Life()
            self.seen += [self.fleet.stored(region) for region in self.fleet.regions]

    def must_be_whole(self) -> None:
        """Nothing twice, nothing lost, and both records the same."""
        assert sorted(self.world.starts) == sorted((name, NEW) for name in PARTS)
        assert self.world.routed == set(REPLICAS)
        last = self.fleet.stored("a")
        assert last == self.fleet.stored("b")
        assert all(last[: len(seen)] == seen for seen in self.seen)
        well = [e.phase for e in last if isinstance(e, Ended) and e.outcome == "ok"]
        assert well == [*PHASES] * len(FLEET)


@pytest.fixture
def rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rollout:
    made = Rollout(Fleet(tmp_path))
    synced = os.fsync

    def fsync(descriptor: int) -> None:
        synced(descriptor)
        made.fleet.life.touch()

    monkeypatch.setattr("infra.rollout.journal.os.fsync", fsync)
    return made


@pytest.mark.parametrize("touches", range(FIRST_TWO))
def test_killed_at_any_boundary_the_other_copy_ends_it(rollout: Rollout, touches: int) -> None:
    """While it takes over, in an intent, in the phase, in an outcome: all of them, one by one."""
    assert rollout.drives(Life(touches)) is None
    assert rollout.drives(Life()) == Over(status="done")
    rollout.must_be_whole()


@pytest.mark.parametrize("touches", range(ONE_PHASE, ONE_PHASE + 14))
def test_killed_again_and_again_it_still_gets_there(rollout: Rollout, touches: int) -> None:
    """Each driver lives a little longer than one phase takes: they die all over the rollout."""
    lives = 0
    while (came := rollout.drives(Life(touches))) is None:
        lives += 1
        assert lives < 10 * len(PHASES) * len(FLEET), "it gets nowhere"
    assert came == Over(status="done")
    rollout.must_be_whole()


@pytest.mark.parametrize("touches", range(18))
def test_a_request_outlives_whoever_takes_it(rollout: Rollout, touches: int) -> None:
    """Written down and not yet removed, or the other way round: asked twice is asked once."""
    asked = Asked(at_s=1.0, by="me", command="pause")
    shared = rollout.fleet.copy("ben")
    assert shared._shared is not None
    shared._shared.ask(asked)
    rollout.drives(Life(touches))
    assert isinstance(rollout.drives(Life()), Wait)
    journal = rollout.fleet.copy("ben")
    with journal.held(ME):
        assert journal.state().status == "paused"
        journal.append(Asked(at_s=2.0, by="me", command="resume"))
    assert rollout.drives(Life()) == Over(status="done")
    rollout.must_be_whole()
