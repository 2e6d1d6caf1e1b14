"""Profiles for tests: the default one, made short and random."""

from __future__ import annotations

from hypothesis import strategies as st

from loadtest.arrivals import Arrivals
from loadtest.profile_schema import (
    Compaction,
    Images,
    ImageSize,
    LogNormal,
    Profile,
    Resumed,
    Subagents,
)

SHARES = st.sampled_from([0.0, 0.1, 0.5, 1.0])


def lognormals(low: float, high: float) -> st.SearchStrategy[LogNormal]:
    """Draw distributions whose values stay below `high`."""
    return st.builds(
        LogNormal,
        median=st.floats(low, high),
        sigma=st.floats(0, 2),
        max=st.just(high),
    )


PROFILES: st.SearchStrategy[Profile] = st.builds(
    Profile,
    name=st.just("random"),
    shared_prefix_tokens=st.integers(100, 500),
    tools_tokens=st.integers(0, 100),
    harness_variants=st.integers(1, 3),
    context_tokens=st.sampled_from([2_000, 20_000, 1_048_576]),
    private_prompt_tokens=lognormals(1, 500),
    resumed=st.none() | st.builds(Resumed, share=SHARES, tokens=lognormals(1, 3_000)),
    single_turn_share=SHARES,
    human_turns=lognormals(1, 6),
    first_turn_steps=lognormals(1, 8),
    later_turn_steps=lognormals(1, 4),
    user_tokens=lognormals(1, 200),
    tool_tokens=lognormals(1, 300),
    output_tokens=lognormals(1, 100),
    reasoning_share=SHARES,
    reasoning_replay=st.sampled_from(["always", "within_turn", "never"]),
    parallel_tool_calls=st.sampled_from([(1.0,), (0.5, 0.5), (0.0, 0.0, 0.0, 1.0)]),
    tool_call_share=SHARES,
    tool_gap_fixed_s=st.floats(0, 5),
    tool_gap_s=lognormals(0.1, 100),
    human_gap_s=lognormals(1, 10_000),
    gap_cap_s=st.none() | st.floats(1, 100),
    compaction=st.none()
    | st.builds(Compaction, at_tokens=st.integers(900, 3_000), tokens=lognormals(1, 200)),
    subagents=st.none()
    | st.builds(
        Subagents,
        share=SHARES,
        fork_share=SHARES,
        prompt_tokens=st.integers(1, 300),
        steps=lognormals(1, 5),
    ),
    images=st.builds(
        Images,
        turn_share=SHARES,
        per_turn=lognormals(1, 3),
        sizes=st.just((ImageSize(width=280, height=140), ImageSize(width=1, height=1))),
    ),
    cancel_share=SHARES,
    arrivals=st.builds(Arrivals, cv=st.floats(0.1, 3)),
)
