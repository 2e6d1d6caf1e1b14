"""Claims about moments of arrival: they are the network's, and on a clock that nobody sets."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest

from loadtest.client.arrival import SO_TIMESTAMPNS, ArrivalClock


@dataclass
class Clocks:
    """Stand in for the two clocks of a machine."""

    monotonic_s: float = 100.0
    wall_s: float = 1_000_000.0

    def pass_time(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds

    def arrivals(self) -> ArrivalClock:
        return ArrivalClock(lambda: self.monotonic_s, lambda: self.wall_s)


def note(wall_s: float) -> list[tuple[int, int, bytes]]:
    nanoseconds = round(wall_s * 1e9)
    return [(1, SO_TIMESTAMPNS, struct.pack("qq", *divmod(nanoseconds, 1_000_000_000)))]


def test_a_late_read_does_not_make_the_arrival_late() -> None:
    """A generator that is busy must not blame the server for it."""
    clocks = Clocks()
    arrivals = clocks.arrivals()
    kernel = note(clocks.wall_s)
    clocks.pass_time(0.030)
    assert arrivals.moment(kernel) == pytest.approx((100.0, 0.030), abs=1e-6)


def test_without_a_note_it_is_now() -> None:
    """Not every network says when."""
    clocks = Clocks()
    assert clocks.arrivals().moment([]) == (100.0, 0.0)


@pytest.mark.parametrize("step_s", [-3600.0, -0.5, 0.5, 3600.0])
def test_a_clock_that_is_set_changes_no_moment(step_s: float) -> None:
    """The note of before and the time of after have no common clock: the read counts."""
    clocks = Clocks()
    arrivals = clocks.arrivals()
    kernel = note(clocks.wall_s)
    clocks.pass_time(0.002)
    clocks.wall_s += step_s
    assert arrivals.moment(kernel) == (clocks.monotonic_s, 0.0)
    assert arrivals.moment(kernel) == (clocks.monotonic_s, 0.0)


def test_notes_after_the_step_are_believed_again() -> None:
    """A step is no reason to measure worse for the rest of the run."""
    clocks = Clocks()
    arrivals = clocks.arrivals()
    clocks.wall_s -= 60.0
    arrivals.moment([])
    clocks.pass_time(1.0)
    kernel = note(clocks.wall_s)
    clocks.pass_time(0.010)
    assert arrivals.moment(kernel) == pytest.approx((101.0, 0.010), abs=1e-6)


def test_a_lost_core_between_two_looks_is_no_step() -> None:
    """A busy machine takes the process away between reading one clock and the other."""
    clocks = Clocks()
    pauses = iter([0.0, 0.020])

    def slow_look() -> float:
        clocks.pass_time(next(pauses, 0.0))
        return clocks.wall_s

    arrivals = ArrivalClock(lambda: clocks.monotonic_s, slow_look)
    kernel = note(clocks.wall_s)
    assert arrivals.moment(kernel) == pytest.approx((100.0, 0.020), abs=1e-6)


@pytest.mark.parametrize("kind", [(2, SO_TIMESTAMPNS), (1, 30)])
def test_other_notes_are_not_times(kind: tuple[int, int]) -> None:
    """What has another form, or another number, says nothing about arrival."""
    content = struct.pack("q", 1) if kind[0] == 2 else struct.pack("qq", 1, 1)
    assert Clocks().arrivals().moment([(*kind, content)]) == (100.0, 0.0)
