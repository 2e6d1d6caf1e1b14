"""Claims about the climb of the hit rate after a launch, without a server."""

from __future__ import annotations

from itertools import islice

import pytest

from loadtest.traffic.profile_schema import LogNormal
from loadtest.traffic.profiles import load_profile
from loadtest.traffic.ramp import StepHit, cumulative_hit, planned_hits
from loadtest.traffic.scale import Scale, Seeds

# Cumulative hit in % at steps 1, 5, 10, 20, 50: start 24.5K, 14K of it shared, +1.78K a step.
PUBLISHED = {
    True: (57, 87, 92, 95, 97),
    False: (0, 77, 88, 93, 97),  # the same less the 14K of the first step: worked out likewise
}


def always(value: float) -> LogNormal:
    return LogNormal(median=value, sigma=0, max=value)


@pytest.mark.parametrize("shared_is_warm", PUBLISHED)
def test_the_climb_is_that_of_the_launch_arithmetic(*, shared_is_warm: bool) -> None:
    """A session of the mean lengths gives the figures that were worked out by hand."""
    profile = load_profile("cold_launch").model_copy(
        update={
            "private_prompt_tokens": always(10_500),
            "first_turn_steps": always(60),
            "tool_tokens": always(1_530),
            "output_tokens": always(250),
            "subagents": None,
            "cancel_share": 0.0,
        }
    )
    plan = planned_hits(profile, Scale(tokens=1, time=1), Seeds(seed=1, salt=""), 0)
    steps = [
        StepHit(call.turn, call.prompt_tokens, found.warm if shared_is_warm else found.cold)
        for call, found in islice(plan, 50)
    ]
    climb = [cumulative_hit(steps, last) or 0.0 for last in (1, 5, 10, 20, 50)]
    assert climb == pytest.approx([share / 100 for share in PUBLISHED[shared_is_warm]], abs=0.006)


def test_nothing_sent_has_no_hit_rate() -> None:
    """Absent is not zero."""
    assert cumulative_hit([StepHit(3, 100, 50)], 2) is None
