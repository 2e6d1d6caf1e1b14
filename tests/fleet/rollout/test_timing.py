"""How long a step takes: its regions are updated in turn, and do all else side by side."""

from __future__ import annotations

import pytest

from fleet.rollout.strategy import Assumed, Gates
from fleet.rollout.timing import StartTimes, StepTimes, step_times, window_s

START = StartTimes(drain_s=30.0, load_s=300.0, warm_up_s=420.0)
ASSUMED = Assumed.model_validate(
    {"update": "8s", "register": "4s", "questions": "20s", "requests_per_s": 2.0}
    | {"returning_share": 0.5}
)
GATES = Gates(min_requests=160, min_replica_requests=20)


def times(**away: int) -> StepTimes:
    return step_times(away, {"east": 9, "west": 17}, START, GATES, ASSUMED)


def test_one_replica_goes_through_all_parts() -> None:
    """Each has a name, so that a team can replace ours by what it has measured."""
    assert times(east=1) == StepTimes(
        drain_s=30, update_s=8, load_s=300, warm_up_s=420, register_s=4, questions_s=20,
        gates_s=20,
    )  # fmt: skip
    assert times(east=1).total_s == 802


def test_regions_are_updated_in_turn_and_do_all_else_side_by_side() -> None:
    """One engine runs at a time; drains, questions and gates last as long as the slowest one."""
    both = times(east=1, west=2)
    assert (both.drain_s, both.update_s, both.questions_s) == (30, 16, 40)
    assert (both.load_s, both.warm_up_s, both.register_s) == (300, 420, 4)
    assert both.gates_s == max(20, 160 / (2.0 * 15), 20 / (2.0 * 0.5 * 2))


@pytest.mark.parametrize(
    ("away", "replicas", "seconds"),
    [
        (1, 9, 20.0),  # 20 answers of a replica that gets one a second
        (4, 9, 16.0),  # 160 requests of the five that stay
        (1, 2, 80.0),
        (1, 1, 80.0),  # of a region that is away as a whole nobody knows better
    ],
)
def test_gates_wait_for_what_comes_last(away: int, replicas: int, seconds: float) -> None:
    """The region's requests, or those of the new replicas."""
    assert window_s(away, replicas, GATES, ASSUMED) == seconds
