"""Claims about the mergeable histogram."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.results.histogram import GROWTH, LEAST_MS, Histogram, coarse_columns
from loadtest.results.quantiles import histogram_rank, nearest_rank

values = st.lists(st.floats(LEAST_MS * 2, 1e7), max_size=60)
some = st.lists(st.floats(LEAST_MS * 2, 1e7), min_size=1, max_size=60)
shares = st.floats(0.01, 1)


def of(values_ms: list[float]) -> Histogram:
    histogram = Histogram()
    for value_ms in values_ms:
        histogram.add(value_ms)
    return histogram


@given(some, shares)
def test_a_percentile_is_at_most_a_hundredth_high_and_never_low(
    values_ms: list[float], share: float
) -> None:
    """The stated error bound, against the exact nearest rank."""
    exact, found = nearest_rank(values_ms, share), of(values_ms).rank(share)
    assert exact is not None
    assert found is not None
    assert exact * (1 - 1e-3) <= found <= exact * GROWTH * (1 + 1e-3)


@given(values, values, values)
def test_merged_histograms_equal_one_of_all_values(
    a: list[float], b: list[float], c: list[float]
) -> None:
    """In any order and grouping: workers report when they like."""
    left, right = of(a), of(c)
    left.merge(of(b))
    left.merge(of(c))
    right.merge(of(a))
    right.merge(of(b))
    assert left.counts == right.counts == of(a + b + c).counts


@given(values)
def test_it_survives_being_sent(values_ms: list[float]) -> None:
    """What a worker packs is what the master has."""
    assert Histogram.unpacked(of(values_ms).packed()).counts == of(values_ms).counts


@given(values)
def test_seconds_are_counted_like_milliseconds(values_ms: list[float]) -> None:
    """The fast way for many values is the slow way."""
    fast, slow = Histogram(), Histogram()
    fast.add_seconds(value / 1000 for value in values_ms)
    for value in values_ms:
        slow.add(value / 1000 * 1000)
    assert fast.counts == slow.counts


@given(some, st.integers(0, 60), shares)
def test_failures_count_as_endless(values_ms: list[float], failures: int, share: float) -> None:
    """A percentile that falls among failed requests has no bound, and is never a success."""
    exact = nearest_rank([*values_ms, *[float("inf")] * failures], share)
    found = of(values_ms).rank(share, failures)
    assert (found is None) == (exact == float("inf"))


def test_times_below_a_microsecond_are_counted() -> None:
    """Two reads in the same clock tick have a gap of zero, and its logarithm does not exist."""
    assert LEAST_MS <= (of([0.0, 1e-9]).rank(1.0) or 0) <= LEAST_MS * GROWTH


@given(some, shares)
def test_columns_hold_the_same_percentiles(values_ms: list[float], share: float) -> None:
    """A summary made from the file says what the page said."""
    histogram = of(values_ms)
    assert histogram_rank(histogram.columns(), share) == histogram.rank(share)


@given(some)
def test_a_plot_has_all_values_in_few_bars(values_ms: list[float]) -> None:
    """Bars 10 % wide: no value is lost, and edges keep their distance."""
    fine = of(values_ms).columns()
    coarse = coarse_columns(fine, 1.1)
    assert sum(coarse["count"]) == len(values_ms)
    assert coarse["le_ms"][-1] == fine["le_ms"][-1]
    assert len(coarse["le_ms"]) <= len(fine["le_ms"])
