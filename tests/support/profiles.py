"""Profiles for tests: the default one, made short and random."""

from __future__ import annotations

from hypothesis import strategies as st

from loadtest.traffic.arrivals import Arrivals
from loadtest.traffic.profile_schema import (
    Compaction,
    Images,
    ImageSize,
    LogNormal,
    Profile,
    Resumed,
    Subagents,
)

SHARES = st.sampled_from([0.5, 0.0, 0.1, 1.0])


def lognormals(median: float, largest: float) -> st.SearchStrategy[LogNormal]:
    """Draw distributions around a median, wide and narrow ones, whose values end at `largest`."""
    return st.builds(
        LogNormal,
        median=st.sampled_from([median, 1, largest]),
        sigma=st.sampled_from([0.5, 0, 2]),
        max=st.just(largest),
    )


def sometimes(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Leave something out now and then; plain `none() | …` would do so half of the time."""
    return st.integers(0, 4).flatmap(lambda number: st.none() if number == 4 else strategy)


PROFILES: st.SearchStrategy[Profile] = st.builds(
    Profile,
    name=st.just("random"),
    shared_prefix_tokens=st.sampled_from([200, 100, 500]),
    tools_tokens=st.sampled_from([100, 0]),
    harness_variants=st.integers(1, 3),
    context_tokens=st.sampled_from([1_048_576, 20_000, 2_000]),
    private_prompt_tokens=lognormals(200, 1_000),
    resumed=sometimes(st.builds(Resumed, share=SHARES, tokens=lognormals(800, 3_000))),
    single_turn_share=st.sampled_from([0.0, 0.5, 1.0]),
    human_turns=lognormals(4, 6),
    first_turn_steps=lognormals(6, 9),
    later_turn_steps=lognormals(3, 5),
    user_tokens=lognormals(50, 200),
    tool_tokens=lognormals(60, 300),
    output_tokens=lognormals(30, 100),
    reasoning_share=SHARES,
    reasoning_replay=st.sampled_from(["within_turn", "always", "never"]),
    parallel_tool_calls=st.sampled_from([(0.5, 0.5), (1.0,), (0.0, 0.0, 0.0, 1.0)]),
    tool_call_share=SHARES,
    tool_gap_fixed_s=st.sampled_from([0.5, 0.0]),
    tool_gap_s=lognormals(1, 100),
    human_gap_s=lognormals(60, 10_000),
    gap_cap_s=st.sampled_from([100.0, None]),
    compaction=sometimes(
        st.builds(
            Compaction,
            at_tokens=st.sampled_from([1_000, 900, 3_000]),
            tokens=lognormals(100, 200),
        )
    ),
    subagents=sometimes(
        st.builds(
            Subagents,
            share=SHARES,
            fork_share=SHARES,
            prompt_tokens=st.sampled_from([150, 1]),
            steps=lognormals(3, 5),
        )
    ),
    images=st.builds(
        Images,
        turn_share=SHARES,
        per_turn=lognormals(2, 3),
        sizes=st.just((ImageSize(width=280, height=140), ImageSize(width=1, height=1))),
    ),
    cancel_share=st.sampled_from([0.1, 0.0, 0.5, 1.0]),
    arrivals=st.builds(Arrivals, cv=st.sampled_from([1.5, 0.0, 1.0])),
)
