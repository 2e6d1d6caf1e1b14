"""The gates' definitions: what a new release has to show, and when nobody can tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.rollout.counters import (
    Counts,
    FirstTokens,
    PromptTokens,
    Reading,
    ReplicaCounts,
    Window,
    between,
)
from fleet.rollout.gates import Judgement, judge
from fleet.rollout.strategy import Gates

GATES = Gates(
    min_requests=100,
    min_replica_requests=20,
    max_error_rate=0.02,
    max_ttft_ratio=1.25,
    max_hit_dip=0.15,
    hit_recovery_s=900.0,
)
EDGES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


def first(mean_s: float, answers: int = 200) -> FirstTokens:
    """Give answers that all took as long."""
    buckets = {edge: float(answers if mean_s <= edge else 0) for edge in EDGES}
    return FirstTokens(answers=answers, seconds=mean_s * answers, buckets=buckets)


def replicas(mean_s: float, hit: float | None = 0.9, answers: int = 200) -> ReplicaCounts:
    tokens = None if hit is None else PromptTokens(prompt=1000.0, cached=hit * 1000.0)
    return ReplicaCounts(first_tokens=first(mean_s, answers), tokens=tokens)


def requests(count: float = 200, errors: float = 0, hit: float = 0.9) -> Counts:
    tokens = PromptTokens(prompt=count * 1000, cached=count * 1000 * hit)
    return Counts(requests=count, errors=errors, tokens=tokens)


WELL = Window(seconds=60.0, region=requests(), new=replicas(0.5), old=replicas(0.5))


def judged(
    window: Window = WELL,
    *,
    so_far: Counts | None = None,
    baseline: Counts | None = None,
    age_s: float = 60.0,
) -> Judgement:
    return judge(so_far or requests(), window, baseline or requests(10_000), GATES, age_s)


def test_a_healthy_release_is_judged_by_every_gate() -> None:
    """And each verdict names figure, limit and window."""
    held = judged()
    assert held.verdict == "held"
    assert "max_error_rate: 0 errors in 200 requests, 0.00%; allowed are 2.00%" in held.why
    assert (
        "max_ttft_ratio: 1.00 (0.500 s over 200 answers, others 0.500 s over 200, in 60 s); "
        "allowed are 1.25"
    ) in held.why
    assert "max_hit_dip of the region: +0.000 (0.900 against 0.900, in 60 s)" in held.why
    assert "max_hit_dip of the replicas: +0.000" in held.why


@pytest.mark.parametrize(
    ("window", "so_far", "why"),
    [
        (WELL, requests(99), "99 of 100 requests that the gates need"),
        (
            replace(WELL, new=replicas(0.5, answers=19)),
            requests(),
            "19 of 20 answers of the new replicas in 60 s",
        ),
        (
            replace(WELL, old=replicas(0.5, answers=3)),
            requests(),
            "3 of 20 answers of replicas of another release in 60 s",
        ),
    ],
)
def test_too_little_is_no_verdict(window: Window, so_far: Counts, why: str) -> None:
    """A new replica that got two requests says nothing."""
    assert judged(window, so_far=so_far) == Judgement(verdict="wait", why=why)


def test_errors_count_over_the_whole_phase_and_end_it_at_once() -> None:
    """No cache explains them; and two in a hundred are over whatever comes."""
    broken = judged(so_far=requests(50, errors=3))
    assert broken.verdict == "broken"
    assert broken.why.startswith("max_error_rate: 3 errors in 50 requests, 6.00%")
    assert judged(so_far=requests(50, errors=1)).verdict == "wait"


def test_a_slow_release_is_excused_only_while_its_cache_is_empty() -> None:
    """Then it is slow."""
    slow = replace(WELL, new=replicas(2.0))
    assert judged(slow, age_s=899.0).verdict == "again"
    late = judged(slow, age_s=901.0)
    assert late.verdict == "broken"
    assert late.why.startswith("max_ttft_ratio: 4.00 (2.000 s over 200 answers")
    assert late.why.endswith("allowed are 1.25 901 s after the phase began")


def test_a_ratio_that_chance_explains_is_not_held_against_a_release() -> None:
    """Times to the first token spread widely: 1.4 over twenty answers is noise."""
    wide = FirstTokens(answers=20, seconds=20 * 0.7, buckets={0.1: 10, 5.0: 20})
    usual = FirstTokens(answers=20, seconds=20 * 0.5, buckets={0.1: 10, 5.0: 20})
    noisy = replace(
        WELL, new=ReplicaCounts(first_tokens=wide), old=ReplicaCounts(first_tokens=usual)
    )
    assert judged(noisy, age_s=1000.0).verdict == "held"
    many = replace(
        WELL,
        new=replicas(0.7, answers=5000),
        old=replicas(0.5, answers=5000),
    )
    assert judged(many, age_s=1000.0).verdict == "broken"


def test_an_empty_cache_has_to_fill_in_time() -> None:
    """A dip of the new replicas is the price of a rollout; that it stays is not."""
    cold = replace(WELL, new=replicas(0.5, hit=0.7))
    assert judged(cold, age_s=10.0).verdict == "again"
    late = judged(cold, age_s=901.0)
    assert late.verdict == "broken"
    assert "max_hit_dip of the replicas: +0.200 (0.700 against 0.900, in 60 s)" in late.why
    assert judged(replace(WELL, new=replicas(0.5, hit=0.76)), age_s=10.0).verdict == "held"


def test_a_dip_of_the_whole_region_has_no_excuse() -> None:
    """Its other replicas have their caches: sessions that run about are no cold start."""
    dip = judged(replace(WELL, region=requests(hit=0.6)), age_s=5.0)
    assert dip.verdict == "broken"
    assert "max_hit_dip of the region: +0.300 (0.600 against 0.900, in 60 s)" in dip.why


@pytest.mark.parametrize(
    ("window", "baseline", "said"),
    [
        (replace(WELL, old=None), None, "max_ttft_ratio: not judged, no other release serves"),
        (
            replace(WELL, new=ReplicaCounts(), old=ReplicaCounts()),
            None,
            "max_ttft_ratio: not measured, the engine publishes no times",
        ),
        (
            replace(WELL, new=replicas(0.5, hit=None)),
            None,
            "max_hit_dip of the replicas: not measured, the engine publishes no tokens",
        ),
        (WELL, requests(3), "max_hit_dip of the region: not judged, too little traffic before"),
        (WELL, requests(1300), "max_hit_dip of the region: not judged, too little traffic before"),
    ],
)
def test_what_cannot_be_measured_is_said(
    window: Window, baseline: Counts | None, said: str
) -> None:
    """A verdict that leaves a gate out in silence would be read as one that holds."""
    held = judged(window, baseline=baseline)
    assert held.verdict == "held"
    assert said in held.why


COUNTS = st.builds(
    Counts,
    requests=st.floats(0, 1e6),
    errors=st.just(0.0),
    tokens=st.builds(PromptTokens, prompt=st.floats(0, 1e9), cached=st.just(0.0)),
)


@given(st.dictionaries(st.text(max_size=2), COUNTS), st.dictionaries(st.text(max_size=2), COUNTS))
def test_a_window_never_counts_less_than_nothing(
    before: dict[str, Counts], now: dict[str, Counts]
) -> None:
    """Restarts, new frontends and lost ones in any mixture."""
    window = between(
        Reading(at_s=0.0, frontends=before, new={}, old={}),
        Reading(at_s=1.0, frontends=now, new={}, old={}),
    )
    assert window.region.requests >= 0
    assert window.region.tokens.prompt >= 0
    assert window.old is None


def test_a_replica_that_came_anew_counts_from_its_start() -> None:
    """Its engine's counters began with it; those of the pod before are no part of the window."""
    window = between(
        Reading(at_s=0.0, frontends={}, new={"a": replicas(1.0, answers=100)}, old={}),
        Reading(
            at_s=5.0,
            frontends={},
            new={"a": replicas(1.0, answers=130), "b": replicas(3.0, answers=10)},
            old={},
        ),
    )
    assert window.new.first_tokens is not None
    assert (window.new.first_tokens.answers, window.new.first_tokens.mean_s) == (40, 1.5)


def test_restarted_counters_have_counted_from_zero() -> None:
    """A frontend that came anew has not taken requests back."""
    before = {"a": Counts(requests=100, errors=50), "b": Counts(requests=80, errors=8)}
    now = {
        "a": Counts(requests=110, errors=51),
        "b": Counts(requests=5, errors=0),
        "c": Counts(requests=7, errors=2),
    }
    window = between(
        Reading(at_s=0.0, frontends=before, new={}, old={}),
        Reading(at_s=1.0, frontends=now, new={}, old={}),
    )
    assert (window.region.requests, window.region.errors) == (22, 3)


def test_the_spread_is_that_of_the_buckets() -> None:
    """All in one narrow bucket: hardly any; half at once and half very late: a lot."""
    assert first(0.4).spread < 0.5
    halves = FirstTokens(answers=100, seconds=250.0, buckets={0.1: 50.0, 5.0: 50.0, 10.0: 100.0})
    assert halves.spread > 1.5
    assert FirstTokens(answers=9, seconds=1.0).spread == 1.0
