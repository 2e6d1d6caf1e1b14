"""Claims about the arrival of sessions."""

from __future__ import annotations

import math
import random
import statistics
from itertools import accumulate, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ConfigError
from loadtest.traffic.arrivals import Arrivals, RecordedArrivals

CVS = st.just(0.0) | st.floats(0.01, 10.0)
RATES = st.floats(1e-6, 1e6)
SEEDS = st.integers()
DRAWN = 20_000


def rng(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


@given(cv=CVS, rate=RATES, seed=SEEDS)
def test_due_times_never_go_back(cv: float, rate: float, seed: int) -> None:
    """A gap may be 0 in a burst; it is never negative and always a number."""
    gaps_s = list(islice(Arrivals(cv=cv).gaps_s(rng(seed), rate), 50))
    assert len(gaps_s) == 50
    assert all(gap_s >= 0 and math.isfinite(gap_s) for gap_s in gaps_s)


@given(cv=CVS, rate=RATES, seed=SEEDS)
def test_gaps_scale_with_the_rate(cv: float, rate: float, seed: int) -> None:
    """So a rate that changes while running divides gaps drawn at rate 1."""
    at_one = list(islice(Arrivals(cv=cv).gaps_s(rng(seed), 1.0), 20))
    at_rate = list(islice(Arrivals(cv=cv).gaps_s(rng(seed), rate), 20))
    assert at_rate == pytest.approx([gap_s / rate for gap_s in at_one])


@given(cv=CVS, seed=SEEDS)
def test_a_seed_repeats_its_arrivals(cv: float, seed: int) -> None:
    """Two runs of one seed have the same load."""
    one, two = (list(islice(Arrivals(cv=cv).gaps_s(rng(seed), 2.0), 20)) for _ in range(2))
    assert one == two


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 1.5, 4.0])
def test_rate_and_burstiness_are_those_asked_for(cv: float) -> None:
    """Mean 1/rate; standard deviation cv/rate; within 4 errors of the mean."""
    gaps_s = list(islice(Arrivals(cv=cv).gaps_s(rng(7), 3.0), DRAWN))
    assert statistics.mean(gaps_s) * 3.0 == pytest.approx(1.0, abs=1e-9 + 4 * cv / DRAWN**0.5)
    assert statistics.pstdev(gaps_s) * 3.0 == pytest.approx(cv, abs=1e-9, rel=0.1)


def test_a_cv_of_one_is_poisson() -> None:
    """Counts per second have a variance like their mean, which no other process has."""
    due_s = accumulate(islice(Arrivals(cv=1.0).gaps_s(rng(3), 5.0), DRAWN))
    counts = [0] * (DRAWN // 5 + 500)
    for at_s in due_s:
        counts[int(at_s)] += 1
    whole = counts[: DRAWN // 5 - 100]
    assert statistics.pvariance(whole) / statistics.mean(whole) == pytest.approx(1.0, abs=0.1)


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=30)
    .map(sorted)
    .filter(lambda times_s: times_s[-1] > times_s[0] + 1e-3),
    st.floats(1e-3, 1e3),
)
def test_recorded_arrivals_keep_their_pattern_at_any_rate(
    times_s: list[float], rate: float
) -> None:
    """The same gaps, all stretched by one factor, so that their mean is 1/rate; again and again."""
    recorded = RecordedArrivals(times_s)
    count = len(times_s) - 1
    gaps_s = list(islice(recorded.gaps_s(rng(0), rate), 2 * count))
    assert gaps_s[:count] == gaps_s[count:]
    assert sum(gaps_s[:count]) == pytest.approx(count / rate)
    as_recorded = list(islice(recorded.gaps_s(rng(0), recorded.own_rate_per_s), count))
    assert list(accumulate(as_recorded, initial=times_s[0])) == pytest.approx(times_s)


@pytest.mark.parametrize(
    ("times_s", "said"),
    [
        ([], "all are at one time"),
        ([1.0], "all are at one time"),
        ([2.0, 2.0], "all are at one time"),
        ([2.0, 1.0, 3.0], "go back"),
        ([0.0, math.nan], "no number"),
        ([0.0, math.inf], "no number"),
    ],
)
def test_times_that_give_no_gaps_are_refused(times_s: list[float], said: str) -> None:
    """They come from files of others."""
    with pytest.raises(ConfigError, match=said):
        RecordedArrivals(times_s)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("process", [Arrivals(cv=1.5), Arrivals(cv=0), RecordedArrivals([0, 1])])
def test_a_rate_that_is_none_is_refused_at_once(
    process: Arrivals | RecordedArrivals, rate: float
) -> None:
    """Not at the first arrival, an hour into a schedule."""
    with pytest.raises(ValueError, match="rate_per_s"):
        process.gaps_s(rng(0), rate)
