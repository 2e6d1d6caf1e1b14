"""Moving a region's sessions: what it costs is known before it begins, and bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import CapacityError
from fleet.rollout.strategy import Assumed
from fleet.traffic_shift import HEARD_S, TOTAL_WEIGHT, Pacing, Side, plan_shift

ASSUMED = Assumed(sessions_per_replica=260, context_tokens=110_000, prefill_tokens_per_s=15_000)

QUARTER = Pacing(prefill_share=0.25)


def side(replicas: int, name: str = "r") -> Side:
    return Side(name=name, replicas=replicas)


def test_a_region_of_two_racks_moves_within_the_others_means() -> None:
    """4,680 sessions of 110,000 tokens to two racks of the same size, at a quarter of prefill."""
    shift = plan_shift(side(18), side(18), ASSUMED, pacing=QUARTER)
    assert (shift.sessions, shift.prefill_tokens) == (4680, 514_800_000)
    assert shift.total_s == pytest.approx(514_800_000 / (18 * 15_000 * 0.25))
    assert shift.at_once_s == pytest.approx(514_800_000 / (18 * 15_000))
    assert shift.load == 2.0
    assert [part.weight for part in shift.slices][:2] == [50, 100]


def test_what_has_moved_is_not_moved_again() -> None:
    """A killed drain goes on; turned round it only brings back what went."""
    rest = plan_shift(side(18), side(18), ASSUMED, pacing=QUARTER, weight=700)
    back = plan_shift(side(18), side(18), ASSUMED, pacing=QUARTER, weight=700, target=0)
    assert (rest.slices[0].weight, rest.slices[-1].weight, rest.sessions) == (750, 1000, 1404)
    assert (back.slices[0].weight, back.slices[-1].weight, back.sessions) == (650, 0, 3276)
    none = plan_shift(side(18), side(18), ASSUMED, pacing=QUARTER, weight=1000)
    assert (none.slices, none.total_s, none.hit_dip) == ((), 0, 0.0)


def test_nobody_to_receive_is_said_before_anything_is_moved() -> None:
    """Sessions that are sent to a region without replicas would fail."""
    with pytest.raises(CapacityError, match="west: no replica serves there"):
        plan_shift(side(18), side(0, "west"), ASSUMED, pacing=QUARTER)


@given(
    leaving=st.integers(0, 2000),
    receiving=st.integers(1, 2000),
    share=st.floats(0.01, 1.0),
    weight=st.integers(0, TOTAL_WEIGHT),
    target=st.sampled_from([0, TOTAL_WEIGHT]),
)
def test_no_slice_takes_more_of_the_receivers_than_it_may(
    leaving: int, receiving: int, share: float, weight: int, target: int
) -> None:
    """Over its own pause, which is never shorter than gateways need to hear of it."""
    shift = plan_shift(
        side(leaving),
        side(receiving),
        ASSUMED,
        pacing=Pacing(prefill_share=share),
        weight=weight,
        target=target,
    )
    rate = receiving * ASSUMED.prefill_tokens_per_s
    weights = [weight, *(part.weight for part in shift.slices)]
    for part in shift.slices:
        assert part.prefill_tokens <= rate * share * part.pause_s * (1 + 1e-9)
        assert part.pause_s >= HEARD_S
    assert all(0 < abs(b - a) <= 51 for a, b in pairwise(weights))
    assert weights[-1] == target or weight == target
    assert shift.prefill_share <= share * (1 + 1e-9)
