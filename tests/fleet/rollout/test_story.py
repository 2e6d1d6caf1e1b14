"""What a record tells: which step went through what, and when."""

from __future__ import annotations

from itertools import pairwise

from rollout_large import REPLICAS, large_record
from rollout_world import FLEET, World, started

from fleet.rollout.record import PHASES, Began, Ended, Entry
from fleet.rollout.story import story


def timed(record: list[Entry]) -> list[Entry]:
    """Let a second pass between two entries."""
    return [entry.model_copy(update={"at_s": float(n)}) for n, entry in enumerate(record)]


def test_every_step_is_told_with_all_its_phases() -> None:
    """In the order of the plan, without a hole."""
    world = World(record=[started()])
    for _ in range(len(FLEET) * len(PHASES)):
        world.go()
    told = story(timed(world.record))
    assert [step.step for step in told.steps] == [1, 2, 3, 4, 5, 6]
    assert all(step.whole for step in told.steps)
    assert told.steps[1].replicas == ("a1-1", "a1-2")
    assert told.steps[2].regions == ("a", "b")
    assert (told.steps[3].replicas, told.steps[3].regions) == (
        ("frontends and gateway of a",),
        ("a",),
    )
    assert [span.phase for span in told.steps[0].spans] == list(PHASES)
    assert all(a.to_s == b.from_s - 1 for a, b in pairwise(told.spans))


def test_a_step_takes_what_it_took_without_the_soak() -> None:
    """A soak is chosen: it says nothing about how long the next step takes."""
    world = World(record=[started()])
    for _ in PHASES:
        world.go()
    [step] = story(timed(world.record)).steps
    assert step.to_s == 22
    assert step.seconds == 22 - 1 - 1  # from its first entry, and one second of soak


def test_a_phase_whose_driver_died_is_told_and_so_is_the_next_try() -> None:
    """Nobody knows when it ended; the try after it is another one."""
    world = World(record=[started()])
    world.killed(2)
    world.go()
    first, second = story(timed(world.record)).spans
    assert (first.phase, first.to_s, first.outcome) == ("preflight", None, None)
    assert (second.phase, second.outcome) == ("preflight", "ok")


def test_the_way_back_is_another_pass_of_the_same_step() -> None:
    """It leads elsewhere, and what failed before it stays to be seen."""
    world = World(record=[started("roll-back")])
    for _ in range(PHASES.index("smoke")):
        world.go()
    world.go("failed")
    for _ in PHASES:
        world.go()
    there, back = story(timed(world.record)).steps
    assert (there.step, there.back, there.whole) == (1, False, False)
    assert there.spans[-1].why == "smoke went wrong"
    assert (back.step, back.back, back.whole) == (1, True, True)


def test_what_was_asked_is_told() -> None:
    """By whom, too."""
    world = World(record=[started()])
    world.go()
    world.ask("pause")
    [asked] = story(world.record).asked
    assert (asked.command, asked.by) == ("pause", "t")


def test_a_large_record_is_told_whole() -> None:
    """1,800 replicas one by one have 20,000 phases; each is looked up, not searched."""
    told = story(list(large_record()))
    assert len(told.steps) == REPLICAS
    assert all(step.whole for step in told.steps)


def test_an_open_phase_has_no_end() -> None:
    """It goes on, or its driver is gone: the record cannot tell."""
    entries = [started(), Began(at_s=1.0, phase="preflight")]
    [step] = story(entries).steps
    assert (step.to_s, step.seconds, step.whole) == (None, None, False)
    ended = Ended(at_s=3.0, phase="preflight", outcome="inconclusive", why="locked")
    [step] = story([*entries, ended]).steps
    assert (step.to_s, step.spans[0].why, step.whole) == (3.0, "locked", False)
