"""A wait is looked at often while it is young, and never for longer than allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infra.rollout.waiting import FIRST_S, POLL_S, YOUNG_POLL_S, YOUNG_S, Waiter, Waiting


class Looks:
    """A clock that only pauses move, and the moments at which somebody looked."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.at_s: list[float] = []

    def waiter(self, stop: Callable[[], bool] = lambda: False, **more: float) -> Waiter:
        return Waiter(clock=lambda: self.now_s, pause=self._pause, stop=stop, **more)

    def until(self, held_s: float) -> Callable[[], str]:
        """Miss something until a moment."""

        def missing() -> str:
            self.at_s.append(self.now_s)
            return "" if self.now_s >= held_s else "not yet"

        return missing

    def _pause(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


@pytest.mark.parametrize("held_s", [0.0, 0.1, 0.2, 0.4, 0.9, 7.3])
def test_a_wait_loses_no_more_than_it_had_to_take(held_s: float) -> None:
    """A pod leaves its EndpointSlice in 0.2 s: half a second would be lost in each such wait."""
    looks = Looks()
    assert looks.waiter().until(looks.until(held_s), 60.0) == Waiting("held", "")
    assert looks.now_s - held_s <= max(
        FIRST_S, min(held_s, YOUNG_POLL_S if held_s < YOUNG_S else POLL_S)
    )


def test_a_long_wait_asks_twice_a_second() -> None:
    """Weights load for minutes, and an API server has more to do."""
    looks = Looks()
    assert looks.waiter().until(looks.until(60.0), 10.0) == Waiting("late", "not yet")
    assert looks.at_s[:3] == [0.0, 0.0625, 0.125]
    assert looks.at_s[3:23] == [YOUNG_POLL_S * (n + 1) for n in range(20)]
    assert looks.at_s[23:] == [5.0 + POLL_S * (n + 1) for n in range(10)]


def test_rounds_of_questions_are_as_far_apart_as_before() -> None:
    """A fault of a moment is not to be met in all of them."""
    looks = Looks()
    looks.waiter(first_s=POLL_S).until(looks.until(60.0), 1.5)
    assert looks.at_s == [0.0, 0.5, 1.0, 1.5]


def test_the_last_look_is_at_the_deadline() -> None:
    """Also where that is nearer than the next look would be."""
    looks = Looks()
    assert looks.waiter().until(looks.until(60.0), 0.2).how == "late"
    assert looks.at_s[-1] == 0.2


def test_whoever_objects_ends_it_behind_a_look() -> None:
    """What holds already is not lost to a request to stop."""
    looks = Looks()
    assert looks.waiter(stop=lambda: True).until(looks.until(0.0), 9.0).how == "held"
    assert looks.waiter(stop=lambda: True).until(looks.until(1.0), 9.0).how == "stopped"
