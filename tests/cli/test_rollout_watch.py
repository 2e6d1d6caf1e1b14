"""Watching a rollout from where there is no terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rollout_world import FLEET, NEW, OLD, World, started

from cli import rollout_watch
from cli.rollout_watch import watch
from fleet.errors import ApplyError
from fleet.rollout.record import PHASES
from infra.rollout.journal import Journal
from infra.rollout.rollouts import Rollouts


def test_a_log_gets_a_line_per_change_and_an_end(
    rollouts: Rollouts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline's log is not drawn anew, and a server that is away is said, not fatal."""
    world = World(record=[started()])
    journal = rollouts.journal(1)
    journal.append(world.record[0])
    seen = iter(
        [{"use1-r01-0": (OLD, "serves")}] * 2
        + [ApplyError("us-east: away.")]
        + [{"use1-r01-0": (NEW, "serves")}] * 200
    )

    def states(_rollouts: Rollouts) -> dict[str, tuple[str, str]]:
        found = next(seen)
        if isinstance(found, ApplyError):
            raise found
        return found

    monkeypatch.setattr(rollout_watch, "replica_states", states)
    steps = _going(world, journal)
    watch(rollouts, pause=lambda _seconds: next(steps))
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ("running: preflight a1-0; 6 steps left; 1 of 18 serve, 0 have new-2")
    assert lines[1].endswith("us-east: away.")
    assert lines[-1] == "done: 0 steps left; 1 of 18 serve, 1 have new-2"
    assert len(lines) == len(set(lines))


def _going(world: World, journal: Journal) -> Iterator[None]:
    """Let time pass: nothing at first, then one phase after the other."""
    yield
    yield
    for _ in range(len(FLEET) * len(PHASES)):
        before = len(world.record)
        world.go()
        for entry in world.record[before:]:
            journal.append(entry)
        yield
