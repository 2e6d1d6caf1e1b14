"""Claims about the figures that workers send and the page shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadtest.results.live_figures import LiveFigures
from loadtest.results.records import Record
from loadtest.results.result_options import ResultOptions, ServiceLevels

Make = Callable[..., Any]
OPTIONS = ResultOptions(slo=ServiceLevels(ttft_ms=200, tpot_ms=25), gpus={"us": 8, "eu": 8})

changes = st.fixed_dictionaries(
    {
        "region": st.sampled_from(["us", "eu"]),
        "turn": st.integers(1, 40),
        "predicted_prompt_tokens": st.integers(1, 900_000),
        "ttft_s": st.floats(0.001, 50),
        "cached_tokens": st.none() | st.integers(0, 1000),
        "error": st.sampled_from([None, None, "truncated"]),
        "worker": st.sampled_from(["w0", "w1", None]),
    }
)


def tables(figures: LiveFigures) -> list[Any]:
    cuts = [figures.latency_rows(cut) for cut in ("region", "context", "turn")]
    return [cuts, [figures.hit_rows(c) for c in ("region", "turn", "replica")], figures.totals(10)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(changes, st.integers(0, 2), st.booleans()), max_size=30))
def test_a_master_shows_what_one_process_would(
    make_record: Make, calls: list[tuple[dict[str, Any], int, bool]]
) -> None:
    """Records are spread over workers, which report now and then, in msgpack."""
    alone, master = LiveFigures(OPTIONS), LiveFigures(OPTIONS)
    workers = [LiveFigures(OPTIONS) for _ in range(3)]

    def report(worker: LiveFigures) -> None:
        master.merge(msgpack.unpackb(msgpack.packb(worker.delta())))

    for change, index, tells in calls:
        record: Record = make_record(**change)
        gaps_s = [record.ttft_s or 0.1] * 3
        alone.add(record, gaps_s)
        workers[index].add(record, gaps_s)
        if tells:
            report(workers[index])
    for worker in workers:
        report(worker)
    assert tables(master) == tables(alone)


def test_a_delta_is_told_once(make_record: Make) -> None:
    """A worker that reports every 3 s must not be counted again and again."""
    figures = LiveFigures()
    figures.add(make_record(), [0.02])
    assert figures.delta()["cells"]
    assert figures.delta() == {"histograms": [], "cells": [], "replicas": []}
    assert figures.totals(1)["requests"] == 1


def test_a_request_without_a_report_is_no_miss(make_record: Make) -> None:
    """It is counted as unreported, and its tokens are in no rate."""
    figures = LiveFigures()
    figures.add(make_record())
    figures.add(make_record(cached_tokens=None, prompt_tokens=9000))
    (row,) = figures.hit_rows()
    assert (row["hit"], row["ratio"], row["unreported"]) == (0.512, 1.0, 1)


def test_goodput_counts_errors_and_every_limit(make_record: Make) -> None:
    """Good = all limits met; share of valid and failed requests; cancelled ones are neither."""
    figures = LiveFigures(OPTIONS)
    figures.add(make_record())
    figures.add(make_record(ttft_s=0.3, e2e_s=0.5))
    figures.add(make_record(e2e_s=1.0))
    figures.add(make_record(error="truncated"))
    figures.add(make_record(cancelled=True))
    totals = figures.totals(2)
    assert (totals["goodput_share"], totals["good_requests_per_s"]) == (0.25, 0.5)
    assert totals["good_tokens_per_s"] == 5.5


def test_without_limits_or_gpus_nobody_knows(make_record: Make) -> None:
    """A number would look like one that was measured."""
    figures = LiveFigures()
    figures.add(make_record())
    totals = figures.totals(1)
    assert (totals["goodput_share"], totals["output_tokens_per_s_gpu"]) == (None, None)


def test_tokens_per_gpu_are_over_all_gpus_that_serve(make_record: Make) -> None:
    """Prefill GPUs too, and those of regions that were idle."""
    figures = LiveFigures(OPTIONS)
    figures.add(make_record(output_tokens=160))
    assert figures.totals(1)["output_tokens_per_s_gpu"] == 10.0


def test_ttft_from_due_time_counts_the_wait_before_sending(make_record: Make) -> None:
    """In open loop a late send is the server's fault or ours, and a user waits for both."""
    figures = LiveFigures()
    figures.add(make_record(due_s=1.0, sent_s=2.0, ttft_s=0.5))
    shown = {row["metric"]: row["p50_ms"] for row in figures.latency_rows()}
    assert 1500 <= shown["ttft_due"] <= 1515
    assert 500 <= shown["ttft"] <= 505


def test_a_failed_request_moves_the_adjusted_percentile_only(make_record: Make) -> None:
    """Successes alone look better the more fails."""
    figures = LiveFigures()
    for _ in range(9):
        figures.add(make_record())
    figures.add(make_record(error="timeout_first_token", ttft_s=None))
    ttft = next(row for row in figures.latency_rows() if row["metric"] == "ttft")
    assert ttft["adjusted_p99_ms"] is None
    assert 100 <= ttft["p99_ms"] <= 101
