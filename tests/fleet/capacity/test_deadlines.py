"""Claims about the last hours of a rack."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.capacity.deadlines import timetable

END = datetime(2026, 12, 17, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(("at_once", "minutes"), [(1, 135), (2, 75), (3, 45), (9, 15), (18, 15)])
def test_the_drain_is_as_long_as_its_rounds(at_once: int, minutes: int) -> None:
    """Nine replicas of a quarter of an hour, so many at a time."""
    times = timetable(END, replicas=9, drain_s=900.0, at_once=at_once)
    assert times.scale_in_at - times.drain_at == timedelta(minutes=minutes)


@given(replicas=st.integers(0, 18), drain_s=st.floats(1, 7200), at_once=st.integers(1, 18))
def test_the_rack_is_empty_before_anybody_else_acts(
    replicas: int, drain_s: float, at_once: int
) -> None:
    """EKS comes 40 minutes before the end, AWS wants an UltraServer empty 60 minutes before."""
    times = timetable(END, replicas=replicas, drain_s=drain_s, at_once=at_once)
    assert times.drain_at <= times.scale_in_at < times.empty_by < times.eks_acts_at < times.ends_at
    assert times.ends_at - times.empty_by == timedelta(minutes=60)
