"""Claims about where hits are won and lost, about goodput and about sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.results.goodput import adjusted_ms, goodput, per_gpu
from loadtest.results.locality import (
    attainable_global,
    hits_by_replica,
    hits_by_turn,
    imbalances,
    router_choice,
    skews,
)
from loadtest.results.quantiles import nearest_rank
from loadtest.results.result_options import ResultOptions, ServiceLevels
from loadtest.results.session_figures import session_figures

Make = Callable[..., Any]
REPLICAS = {"us": ["r0", "r1"]}
NAMES = {"w0": "r0", "w1": "r1"}


def test_hits_are_by_turn_and_region(make_record: Make) -> None:
    """All regions together first; a first turn has less to reuse than a late one."""
    records = [
        make_record(turn=1, cached_tokens=0),
        make_record(turn=30),
        make_record(turn=30, region="eu", cached_tokens=256),
    ]
    found = [(row.region, row.bucket, row.hit.achieved) for row in hits_by_turn(records)]
    assert found == [
        ("all", "1", 0.0),
        ("all", "26+", 0.384),
        ("eu", "26+", 0.256),
        ("us", "1", 0.0),
        ("us", "26+", 0.512),
    ]


def test_hits_are_of_the_replica_that_computed_the_prompt(make_record: Make) -> None:
    """Not of the one that only generated."""
    records = [make_record(worker="w0", prefill_worker="w1", cached_tokens=256)]
    (row,) = hits_by_replica(records, NAMES)
    assert (row.replica, row.hit.ratio) == ("r1", 0.5)


def test_one_cache_for_all_regions_would_give_more(make_record: Make) -> None:
    """What other regions have is counted once, and never less than the own region's."""
    records = [make_record(attainable_global_tokens=900), make_record()]
    assert attainable_global(records) == 0.706


def test_regret_is_selected_over_best(make_record: Make) -> None:
    """Answers that do not say who gave them are left out."""
    records = [
        make_record(selected_tokens=512, best_tokens=512),
        make_record(selected_tokens=0, best_tokens=512),
        make_record(),
    ]
    found = router_choice(records)
    assert (found.requests, found.regret) == (2, 0.5)
    assert router_choice([make_record()]).regret is None


def test_skew_counts_idle_replicas(make_record: Make) -> None:
    """One of two replicas did all: twice the mean."""
    (skew,) = skews([make_record(), make_record()], REPLICAS, NAMES)
    assert (skew.replicas, skew.requests, skew.computed_tokens) == (2, 2.0, 2.0)
    (idle,) = skews([], REPLICAS, NAMES)
    assert idle.requests is None


def test_prefill_imbalance_is_by_minute_and_of_what_was_computed(make_record: Make) -> None:
    """Cached tokens are no work; neither an idle minute nor the part of one counts."""
    records = [
        make_record(worker="w0", cached_tokens=0),
        make_record(worker="w1", cached_tokens=0),
        make_record(worker="w0", sent_s=130.0, cached_tokens=0),
        make_record(worker="w1", sent_s=130.0, cached_tokens=1000),
        make_record(worker="w1", sent_s=190.0, cached_tokens=500),
    ]
    (found,) = imbalances(records, REPLICAS, NAMES, 200.0)
    assert (found.per_minute, found.worst, found.minutes_over_limit) == ((1.0, 2.0), 2.0, 0)


def test_goodput_is_of_valid_and_failed_requests(make_record: Make) -> None:
    """inference-perf divides by successes only, which makes failing requests look good."""
    options = ResultOptions(slo=ServiceLevels(ttft_ms=150))
    records = [
        make_record(),
        make_record(ttft_s=0.2),
        make_record(error="truncated"),
        make_record(cancelled=True),
    ]
    found = goodput(records, options, 10.0)
    assert found.share == pytest.approx(1 / 3, abs=1e-6)
    assert (found.requests_per_s, found.tokens_per_s, found.token_share) == (0.1, 1.1, 0.5)
    assert goodput(records, ResultOptions(), 10.0).share is None


def test_throughput_is_per_gpu_of_all_regions(make_record: Make) -> None:
    """A region that stood idle has GPUs too."""
    found = per_gpu([make_record()], ResultOptions(gpus={"us": 1, "eu": 1}), 1.0)
    assert (found.gpus, found.output_tokens_per_s, found.prompt_tokens_per_s) == (2, 5.5, 500.0)
    assert dict(found.output_tokens_per_s_by_region) == {"us": 11.0, "eu": 0.0}
    assert per_gpu([make_record()], ResultOptions(), 1.0).output_tokens_per_s is None


@given(st.lists(st.floats(0, 1e4), max_size=30), st.integers(0, 30))
def test_a_failure_is_longer_than_any_answer(values_ms: list[float], failures: int) -> None:
    """The definition, with infinities."""
    exact = nearest_rank([*values_ms, *[float("inf")] * failures], 0.95)
    found = adjusted_ms(values_ms, failures).p95
    assert found == (None if exact in {None, float("inf")} else round(exact or 0.0, 3))


def test_a_session_lasts_from_its_first_step_to_its_last(make_record: Make) -> None:
    """With the pauses between: that is what its user waits."""
    records = [
        make_record(),
        make_record(turn=2, sent_s=9.7),
        make_record(session="s-2", cancelled=True),
        make_record(session="s-3", parent="s-1", error="truncated", cached_tokens=None),
    ]
    found = session_figures(records)
    assert (found.count, found.sub_agents, found.success_share) == (3, 1, 0.666667)
    assert (found.steps_done, found.steps_failed, found.steps_cancelled) == (2, 1, 1)
    assert (found.duration_ms.p99, found.steps_max, found.hit_p50) == (10_000.0, 2.0, 0.512)
