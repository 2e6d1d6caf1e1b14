"""Claims about what may be said of two runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import make_run, sessions_of

from loadtest.judge.comparison import compare, different_traffic, step_of
from loadtest.judge.comparison_metrics import Percentile, Quotient
from loadtest.results.quantiles import nearest_rank
from loadtest.results.records import Record
from loadtest.results.saved_run import SavedRun, read_saved

Make = Callable[..., Any]
Runs = Callable[..., SavedRun]


@pytest.fixture
def run(tmp_path: Path, make_generator: Make) -> Runs:
    """Make a run of given records."""

    def make(name: str, records: list[Record], **settings: Any) -> SavedRun:
        return read_saved(make_run(tmp_path / name, records, make_generator(), **settings))

    return make


def noisy(records: list[Record], seed: int, *, slower: float = 0.0) -> list[Record]:
    """Give each session its own pace, each request some noise, and all a shift."""
    noise, paces = random.Random(seed), random.Random(7)  # noqa: S311
    pace = {record.session: paces.uniform(0.1, 2.0) for record in records}
    return [
        replace(r, ttft_s=pace[r.session] + noise.gauss(0, 0.01) + slower, e2e_s=3 + slower)
        for r in records
    ]


def words(a: SavedRun, b: SavedRun) -> dict[str, str]:
    return {found.metric: found.word for found in compare(a, b).differences}


def test_two_runs_of_the_same_thing_differ_by_noise(run: Runs, make_record: Make) -> None:
    """A comparison that always finds something is of no use."""
    records = sessions_of(make_record(), 30)
    assert set(words(run("a", noisy(records, 1)), run("b", noisy(records, 2))).values()) == {
        "within noise"
    }


def test_pairs_see_what_the_spread_of_sessions_would_hide(run: Runs, make_record: Make) -> None:
    """50 ms of sessions that take 0.1 to 2 s are seen because each has its twin."""
    records = sessions_of(make_record(), 30)
    a, b = run("a", noisy(records, 1)), run("b", noisy(records, 2, slower=0.05))
    found = compare(a, b)
    assert (found.paired, found.pairs, found.worse) == (True, 90, True)
    assert words(a, b)["TTFT p50, ms"] == "worse"
    assert words(b, a)["TTFT p50, ms"] == "better"


def test_more_hits_are_better_and_more_errors_worse(run: Runs, make_record: Make) -> None:
    """Not every figure is a latency."""
    a = run("a", sessions_of(make_record(), 20))
    b = run("b", [
        replace(r, error="timeout") if r.session.endswith(("1", "2", "3")) else
        replace(r, cached_tokens=400)
        for r in sessions_of(make_record(), 20)
    ])  # fmt: skip
    found = words(a, b)
    assert (found["cache hit, token-weighted"], found["failed requests"]) == ("worse", "worse")
    assert words(b, a)["cache hit, token-weighted"] == "better"


def test_sessions_are_matched_without_the_salt_of_their_run(make_record: Make) -> None:
    """Each run salts its words, so that yesterday's cache is not hit."""
    a = make_record(session="1130120000-12.1", turn=3)
    b = make_record(session="1130130000-worker-1-12.1", turn=3)
    assert step_of(a) == step_of(b) == ("12.1", 3)


def test_few_sessions_say_nothing(run: Runs, make_record: Make) -> None:
    """Two sessions have no spread to speak of."""
    a, b = (run(name, sessions_of(make_record(), 2)) for name in "ab")
    found = compare(a, b)
    assert not found.says_something
    assert not found.worse


def test_unequal_traffic_is_named_and_compared_by_slices(run: Runs, make_record: Make) -> None:
    """Forced all the same, it must not pretend to have pairs."""
    records = [replace(r, sent_s=float(i)) for i, r in enumerate(sessions_of(make_record(), 40))]
    a, b = run("a", records, users=2), run("b", records, users=3)
    assert different_traffic(a.settings, b.settings) == ("users: 2 and 3",)
    assert compare(a, b).paired is False
    assert words(a, b)["TTFT p95, ms"] == "within noise"


def test_the_figures_are_those_of_the_summary(make_record: Make) -> None:
    """Weights of one must give the plain percentile and the plain ratio."""
    records = [make_record(ttft_s=value / 10) for value in (5, 1, 4, 2, 3)]
    ranked = Percentile(name="", share=0.95, read=lambda r: r.ttft_s).figures(records)
    assert ranked.value() == nearest_rank([r.ttft_s for r in records], 0.95)
    mean = Quotient(name="", part=lambda r: r.ttft_s, whole=lambda _: 1.0).figures(records)
    assert mean.value() == pytest.approx(0.3)


def test_a_resample_counts_each_request_of_its_groups(make_record: Make) -> None:
    """Twice the first group and nothing of the second is the first group."""
    records = [make_record(ttft_s=value) for value in (1.0, 1.0, 9.0)]
    groups, counts = np.array([0, 0, 1]), np.array([[2, 0], [0, 2], [1, 1], [0, 0]])
    mean = Quotient(name="", part=lambda r: r.ttft_s, whole=lambda _: 1.0).figures(records)
    found = mean.resampled(counts, groups)
    assert found[:3].tolist() == [1.0, 9.0, pytest.approx(11 / 3)]
    ranked = Percentile(name="", share=0.5, read=lambda r: r.ttft_s).figures(records)
    assert ranked.resampled(counts, groups)[:3].tolist() == [1.0, 9.0, 1.0]
    assert np.isnan([found[3], ranked.resampled(counts, groups)[3]]).all()
