"""The rate that is kept, and the time that is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.weights.pace import Meter, TokenBucket


@given(
    st.floats(1, 1e9),
    st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 10)), min_size=1, max_size=50),
)
def test_a_rate_is_kept_over_any_time(rate: float, moves: list[tuple[int, float]]) -> None:
    """Whatever is asked for: never more than a second's worth beyond the rate."""
    bucket, now_s, moved = TokenBucket(rate, 0.0), 0.0, 0
    for count, pause_s in moves:
        now_s += pause_s
        now_s += bucket.take(count, now_s)
        moved += count
        assert moved <= rate * (now_s + 1) * (1 + 1e-9) + 1e-6


def test_without_a_rate_nobody_waits() -> None:
    """As fast as it goes."""
    bucket = TokenBucket(None, 0.0)
    assert bucket.take(10**15, 0.0) == 0.0


def test_what_was_done_before_says_nothing_of_the_speed() -> None:
    """A resumed run that counted it would promise minutes for hours."""
    meter = Meter(1000, 0.0)
    meter.skip(900)
    assert meter.left_s(1.0) is None
    meter.move(10, 1.0)
    assert meter.left_s(1.0) == 9.0


def test_the_speed_is_that_of_the_last_minute() -> None:
    """An hour at another rate is no forecast."""
    meter = Meter(10**6, 0.0)
    for second in range(1, 3601):
        meter.move(100, float(second))
    for second in range(3601, 3700):
        meter.move(10, float(second))
    assert 9 < meter.bytes_per_s(3699.0) < 12


def test_when_all_is_done_nothing_is_left() -> None:
    """Also when a part had to be sent twice."""
    meter = Meter(10, 0.0)
    meter.move(12, 1.0)
    assert meter.left_s(2.0) == 0.0
