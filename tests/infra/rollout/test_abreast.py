"""Regions of a step wait side by side, and the first that is not well ends the waits of all."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

import pytest

from fleet.errors import BusyError, ClusterError
from infra.rollout.abreast import Halt, abreast, in_turn
from infra.rollout.driver import Result

PATIENCE_S = 60.0  # only ends what hangs
OK = Result("ok")
UNSURE = Result("inconclusive", "the API server is away")
FAILED = Result("failed", "answers garbage")


class Asked:
    """Somebody who has not asked for anything, or has."""

    def __init__(self, *, now: bool = False) -> None:
        self.now = now

    def __call__(self) -> bool:
        return self.now


def ended(halt: Halt) -> Callable[[], Result]:
    """Give a region that waits until it is told to end."""
    never = threading.Event()

    def wait() -> Result:
        for _ in range(int(PATIENCE_S / 0.01)):
            if halt():
                return Result("inconclusive", "ended")
            never.wait(0.01)
        return OK

    return wait


def fails(error: BaseException) -> Callable[[], Result]:
    def do() -> Result:
        raise error

    return do


def test_regions_are_waited_for_at_the_same_time() -> None:
    """Each waits here until the other has come as well: in turn, the first would wait forever."""
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def meet() -> Result:
        both.wait()
        return OK

    assert abreast({"east": meet, "west": meet}, Halt(Asked())) == {"east": OK, "west": OK}


@pytest.mark.parametrize("first", [FAILED, UNSURE])
def test_the_first_that_is_not_well_ends_the_others(first: Result) -> None:
    """Gates may watch for an hour; nobody waits for those of a release that has failed."""
    halt = Halt(Asked())
    came = abreast({"east": ended(halt), "west": lambda: first}, halt)
    assert list(came.items()) == [("west", first), ("east", Result("inconclusive", "ended"))]


def test_somebody_who_asks_ends_all() -> None:
    """A roll-back is heard while all regions wait."""
    halt = Halt(Asked(now=True))
    came = abreast({"east": ended(halt), "west": ended(halt)}, halt)
    assert {result.why for result in came.values()} == {"ended"}


def test_a_region_that_has_not_begun_is_left_out() -> None:
    """There are more regions than may wait at a time, and one has failed."""
    regions = {"east": lambda: FAILED, "west": fails(AssertionError("begun"))}
    assert abreast(regions, Halt(Asked()), most=1) == {"east": FAILED}


def test_an_error_does_not_hide_that_the_release_failed_elsewhere() -> None:
    """An API server that is away in one region must not keep a broken release in routing."""
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def away() -> Result:
        both.wait()
        raise ClusterError("east: does not answer. See the API server.")

    def broken() -> Result:
        both.wait()
        return FAILED

    assert abreast({"east": away, "west": broken}, Halt(Asked())) == {"west": FAILED}


def test_an_error_is_raised_once_all_have_ended() -> None:
    """It is tried again as a whole, so nothing may go on behind it."""
    halt = Halt(Asked())
    error = ClusterError("east: does not answer. See the API server.")
    with pytest.raises(ClusterError, match="does not answer"):
        abreast({"east": fails(error), "west": ended(halt)}, halt)
    assert halt()


def test_a_driver_that_was_replaced_touches_nothing_more() -> None:
    """That goes before what any region has to say."""
    halt = Halt(Asked())
    with pytest.raises(BusyError, match="taken over"):
        abreast({"east": fails(BusyError("taken over")), "west": lambda: FAILED}, halt)


def test_a_signal_ends_the_waits() -> None:
    """Only the main thread hears it; the others would wait for their deadlines."""
    halt = Halt(Asked())

    def interrupt() -> Result:
        _thread.interrupt_main()
        return ended(halt)()

    with pytest.raises(KeyboardInterrupt):
        abreast({"east": interrupt, "west": ended(halt)}, halt)


def test_in_turn_the_first_that_is_not_well_is_the_last() -> None:
    """An update that failed in one region is not made in the next."""
    assert in_turn({"a": lambda: OK, "b": lambda: UNSURE, "c": lambda: OK}) == {
        "a": OK,
        "b": UNSURE,
    }
