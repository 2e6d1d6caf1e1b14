"""How long a rollout still takes, and what is learnt from its steps."""

from __future__ import annotations

import pytest
from rollout_world import FLEET, World, started

from fleet.rollout.record import PHASES, Entry
from fleet.rollout.remaining import Remaining, remaining
from fleet.rollout.state import read_state

EXPECTED_S = 100.0
SOAK_S = 60.0  # behind each step of this fleet


def world(expected_s: float | None = EXPECTED_S) -> World:
    first = started()
    steps = [step.model_copy(update={"expected_s": expected_s}) for step in first.steps]
    return World(record=[first.model_copy(update={"steps": tuple(steps)})])


def left(record: list[Entry], every_s: float, after_s: float = 0.0) -> Remaining | None:
    """Ask when so much time has passed between two entries, and since the last."""
    entries = [entry.model_copy(update={"at_s": every_s * n}) for n, entry in enumerate(record)]
    return remaining(read_state(entries), entries, entries[-1].at_s + after_s)


def test_before_the_first_step_it_is_the_plan() -> None:
    """Nothing is learnt yet."""
    found = left(world().record, 1.0)
    assert found == Remaining(seconds=len(FLEET) * (EXPECTED_S + SOAK_S), factor=1.0, steps=0)


def test_it_learns_from_the_steps_that_went_through() -> None:
    """Ten seconds an entry are two hundred a step: the plan counts as one step more."""
    rolled = world()
    for _ in PHASES:
        rolled.go()
    found = left(rolled.record, 10.0)
    assert found is not None
    took_s = 10.0 * (2 * len(PHASES) - 2)  # from its first entry, without the soak
    assert found.steps == 1
    assert found.factor == pytest.approx((EXPECTED_S + took_s) / (2 * EXPECTED_S))
    assert found.seconds == pytest.approx((len(FLEET) - 1) * (EXPECTED_S * found.factor + SOAK_S))


def test_what_the_step_under_way_has_taken_is_off() -> None:
    """But never more than it was to take: the others still come."""
    rolled = world()
    for _ in range(3):
        rolled.go()
    whole_s = len(FLEET) * (EXPECTED_S + SOAK_S)
    found = left(rolled.record, 1.0, after_s=20.0)
    assert found is not None
    assert found.seconds == whole_s - 25.0
    late = left(rolled.record, 1.0, after_s=1e6)
    assert late is not None
    assert late.seconds == whole_s - (EXPECTED_S + SOAK_S)


@pytest.mark.parametrize(("every_s", "factor"), [(1e5, 4.0), (1e-6, 0.25)])
def test_what_is_learnt_is_bounded(every_s: float, factor: float) -> None:
    """A night on hold is no measure of a step."""
    rolled = world()
    for _ in range(3 * len(PHASES)):
        rolled.go()
    found = left(rolled.record, every_s)
    assert found is not None
    assert found.factor == pytest.approx(factor, rel=0.02)


def test_without_times_in_the_plan_nothing_is_said() -> None:
    """A record of an older k3fleet has none; nor has what is over anything left."""
    assert left(world(None).record, 1.0) is None
    rolled = world()
    for _ in range(len(FLEET) * len(PHASES)):
        rolled.go()
    assert left(rolled.record, 1.0) is None
