"""A rollout's record in one line."""

from __future__ import annotations

from dataclasses import asdict

from rollout_world import NEW, OLD, REPLICAS, World, started

from fleet.rollout.history import past_rollout
from fleet.rollout.record import PHASES


def test_what_is_done_counts_and_what_is_under_way_does_not() -> None:
    """A replica that is out of routing has the new release only on paper."""
    world = World(record=[started()])
    for _ in range(2 * len(PHASES) + PHASES.index("ready")):
        world.go()
    past = past_rollout(7, world.record)
    assert asdict(past) == {
        "number": 7,
        "old": OLD,
        "new": NEW,
        "status": "running",
        "by": "t",
        "started_at_s": 0.0,
        "last_at_s": 0.0,
        "regions": ("a", "b"),
        "steps": 6,
        "steps_done": 2,
        "replicas": len(REPLICAS),
        "updated": 3,
        "why": "",
    }
    assert not past.over


def test_what_was_turned_back_is_not_there_any_more() -> None:
    """The outcome says so, and the count too."""
    world = World(record=[started()])
    for _ in range(2 * len(PHASES)):
        world.go()
    world.ask("roll-back")
    while not past_rollout(1, world.record).over:
        world.go()
    past = past_rollout(1, world.record)
    assert (past.status, past.steps_done, past.updated) == ("rolled-back", 0, 0)
