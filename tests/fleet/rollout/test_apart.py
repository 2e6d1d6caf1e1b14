"""What it costs to change over to a set that is kept apart."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.load import load_fleet
from fleet.release_set import release_set
from fleet.rollout.apart import apart_cost, moved_share
from fleet.rollout.plan import plan_rollout, rollout_json
from fleet.rollout.strategy import Assumed, Strategy
from fleet.session_shares import shares_of
from fleet.traffic_shift import HEARD_S, TOTAL_WEIGHT

FLEET = load_fleet(Path("fleets/demo.yaml"))
NEW = FLEET.release.model_copy(update={"name": "b", "block_size": 2048})


def shares_moved(leaving: int, replicas: int, done: int) -> float:
    """Count what a step moves by the shares that gateways are told, and by who loses a replica."""
    told = [
        shares_of({"new": done, "old": replicas - done}),
        shares_of({"new": done, "old": replicas - done - leaving}),
        shares_of({"new": done + leaving, "old": replicas - done - leaving}),
    ]
    new = [one.get("new", 0) / TOTAL_WEIGHT for one in told]
    stay = 1 - new[1]
    return new[2] - new[0] + stay * leaving / (replicas - done)


@given(replicas=st.integers(2, 40), data=st.data())
def test_a_step_moves_what_its_shares_say(replicas: int, data: st.DataObject) -> None:
    """The plan's price is of the same rule that the gateways get."""
    done = data.draw(st.integers(0, replicas - 1))
    leaving = data.draw(st.integers(1, replicas - done))
    if leaving < replicas:
        expected = shares_moved(leaving, replicas, done)
        assert moved_share(leaving, replicas, done) == pytest.approx(expected, abs=0.005)


def test_a_step_costs_at_most_twice_what_it_does_inside_a_set() -> None:
    """The first twice, since its sessions go to others of the old set; the last once."""
    costs = [apart_cost(1, 9, done, Assumed()).sessions for done in range(9)]
    usual = Assumed().sessions_per_replica
    assert (costs[0], costs[-1]) == (2 * usual, usual)
    assert costs == sorted(costs, reverse=True)


def test_the_plan_names_both_sets_and_waits_for_gateways_twice() -> None:
    """Before a set's first session, and before its last replica is drained."""
    plan = plan_rollout(FLEET, NEW, Strategy())
    beside = plan_rollout(
        FLEET, NEW.model_copy(update={"block_size": FLEET.release.block_size}), Strategy()
    )
    assert plan.total_s - beside.total_s == pytest.approx(2 * HEARD_S * len(FLEET.spec.regions))
    lengths = [step.times.total_s for step in plan.steps]
    starts = [step.starts_s for step in plan.steps]
    assert all(a <= b for a, b in zip(accumulate(lengths), starts[1:], strict=False))
    data = json.loads(json.dumps(rollout_json(plan)))
    assert data["sets"] == {"old": release_set(FLEET.release), "new": release_set(NEW)}
    assert "changes over to them once" in data["warnings"][0]
    assert beside.sets[0] == beside.sets[1]
