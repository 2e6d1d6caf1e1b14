"""What a rollout's own steps say about the next one's time."""

from __future__ import annotations

from rollout_world import World, started

from fleet.rollout.measured import Measured, measured
from fleet.rollout.record import PHASES, Began, Ended, Entry
from fleet.rollout.story import story

TOOK_S = {"drain": 8.0, "apply": 10.0, "ready": 60.0, "smoke": 4.0, "gates": 24.0, "soak": 900.0}


def timed(record: list[Entry]) -> list[Entry]:
    """Let each phase take its time, and those that are not named one second."""
    now_s, found = 0.0, []
    for entry in record:
        if isinstance(entry, Ended):
            now_s += TOOK_S.get(entry.phase, 1.0)
        found.append(entry.model_copy(update={"at_s": now_s}))
    return found


def test_a_step_is_measured_by_region_and_replica() -> None:
    """Of one region, and of two with a replica each, which are updated in turn and else abreast."""
    world = World(record=[started()])
    for _ in range(len(PHASES)):
        world.go()
    assert measured(story(timed(world.record)).steps) == Measured(
        steps=1, drain_s=8, update_s=13, start_s=60, register_s=2, questions_s=8, window_s=20
    )
    for _ in range(2 * len(PHASES)):
        world.go()
    [_, _, two] = story(timed(world.record)).steps
    found = measured([two])
    assert found is not None
    assert (found.drain_s, found.update_s, found.questions_s) == (8, 6.5, 8)
    assert (found.start_s, found.window_s) == (60, 20)


def test_what_did_not_go_through_is_no_measure() -> None:
    """A step that was held at its gates took as long as people slept."""
    world = World(record=[started(reruns=0)])
    for _ in range(PHASES.index("gates")):
        world.go()
    world.go("failed")
    assert measured(story(timed(world.record)).steps) is None
    assert isinstance(world.record[1], Began)
