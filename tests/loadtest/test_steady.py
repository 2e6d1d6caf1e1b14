"""Claims about the steady window, confidence and over-saturation."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.results.records import Record
from loadtest.results.steady import Window, batch_means, steady_figures, steady_window

Make = Callable[..., Any]
STAGES = [("warm-up", 0.0), ("ramp", 20.0), ("soak", 50.0), ("burst", 200.0), ("drain", 250.0)]
WHOLE = Window(from_s=0.0, to_s=300.0, staged=False)


def test_the_window_is_between_the_ramp_and_the_drain(make_generator: Make) -> None:
    """A burst is part of what the fleet has to stand."""
    window = steady_window(make_generator(duration_s=300.0, stages=STAGES))
    assert (window.from_s, window.to_s, window.staged) == (50.0, 250.0, True)


def test_without_a_drain_the_window_ends_with_the_run(make_generator: Make) -> None:
    """As when the run was stopped."""
    window = steady_window(make_generator(duration_s=120.0, stages=STAGES[:3]))
    assert (window.from_s, window.to_s) == (50.0, 120.0)


def test_a_run_without_stages_loses_a_tenth_at_each_end(make_generator: Make) -> None:
    """The documented rule; other figures stay those of the whole run."""
    window = steady_window(make_generator(duration_s=100.0))
    assert (window.from_s, window.to_s, window.staged) == (10.0, 90.0, False)


def test_a_run_that_never_was_steady_is_trimmed_too(make_generator: Make) -> None:
    """Stopped in its ramp: there is no window that its stages name."""
    window = steady_window(make_generator(duration_s=40.0, stages=STAGES[:2]))
    assert not window.staged


@given(st.lists(st.floats(0, 1), min_size=5, max_size=30))
def test_the_interval_holds_the_mean_of_its_slices(values: list[float]) -> None:
    """And is as wide as they differ."""
    found = batch_means(list(values))
    assert found.mean is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.mean <= found.high
    assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-6)


def test_the_interval_is_students() -> None:
    """Mean 3, deviation √2.5, 5 slices: 3 ± 2.776 · √2.5 ÷ √5."""
    found = batch_means([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (found.low, found.high) == pytest.approx((1.0371, 4.9629), abs=1e-4)


def test_few_slices_give_no_interval() -> None:
    """A slice without a request is none."""
    assert batch_means([1.0, None, 1.0, 1.0, 1.0]).low is None


def load(make_record: Make, *, growing: bool) -> list[Record]:
    """Send 2 requests a second for 300 s; their times grow to six times, or stay."""
    rng = random.Random(1)  # noqa: S311 - no secret
    records = []
    for number in range(600):
        sent_s = number / 2
        ttft_s = (0.5 + sent_s / 100 if growing else 0.5) * rng.uniform(0.8, 1.2)
        records.append(make_record(sent_s=sent_s, ttft_s=ttft_s, e2e_s=2 * ttft_s))
    return records


@pytest.mark.parametrize("growing", [False, True])
def test_a_queue_that_grows_is_over_saturation(make_record: Make, growing: bool) -> None:
    """Requests in flight and TTFT both rise; noise alone does not."""
    found = steady_figures(load(make_record, growing=growing), WHOLE)
    assert found.saturation.over_saturated is growing


def test_figures_of_the_window_have_intervals(make_record: Make) -> None:
    """2 requests a second of 11 tokens each, all with the same hit ratio."""
    found = steady_figures(load(make_record, growing=False), WHOLE)
    assert (found.slices, found.requests, found.ratio) == (30, 600, 1.0)
    assert (found.ratio_interval.low, found.ratio_interval.high) == (1.0, 1.0)
    rate = found.output_tokens_per_s_interval
    assert rate.mean == pytest.approx(22.0, rel=0.01)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 22.0 < rate.high


def test_tokens_count_when_they_come(make_record: Make) -> None:
    """An answer that began before the window brings its later tokens into it."""
    record = make_record(sent_s=0.0, ttft_s=0.0, e2e_s=20.0, output_tokens=200)
    found = steady_figures([record], Window(from_s=10.0, to_s=30.0, staged=True))
    assert (found.requests, found.output_tokens_per_s) == (0, 5.0)


def test_nothing_sent_gives_nothing() -> None:
    """A run that failed at once still has a report."""
    found = steady_figures([], WHOLE)
    assert (found.ratio, found.ratio_interval.mean) == (None, None)
    assert found.saturation.over_saturated is None
    empty = steady_figures([], Window(from_s=0.0, to_s=0.0, staged=False))
    assert (empty.slices, empty.output_tokens_per_s) == (0, 0.0)
