"""Claims about the search for the most users inside the service levels."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from loadtest.play.search import (
    Figures,
    Found,
    Next,
    Outcome,
    SearchOptions,
    Trial,
    judge_trial,
    next_trial,
)

OPTIONS = SearchOptions(start=8, most=1000, ttft_p95_ms=1000)
GOOD = Figures(
    requests=500, errors=0, ttft_p95_ms=800, tpot_p95_ms=20, hit_ratio=0.97, lag_p99_ms=5
)


def trials(*outcomes: tuple[int, Outcome]) -> list[Trial]:
    return [Trial(users=users, outcome=outcome, why="") for users, outcome in outcomes]


def search(
    fleet: Callable[[int], Outcome], options: SearchOptions = OPTIONS
) -> tuple[Found, list[Trial]]:
    """Search on a fleet double until the end."""
    made: list[Trial] = []
    while isinstance(step := next_trial(made, options), Next):
        made += trials((step.users, fleet(step.users)))
        assert len(made) <= options.most_trials
    return step, made


@given(st.integers(1, 1000))
def test_the_limit_of_a_steady_fleet_is_found_within_the_tolerance(limit: int) -> None:
    """Whatever it is, in far fewer trials than numbers."""
    found, made = search(lambda users: "inside" if users <= limit else "outside")
    assert found.settled
    assert found.users is not None
    assert found.users <= limit <= found.users + max(1, found.users * OPTIONS.tolerance)
    assert len(made) <= 20


def test_a_fleet_that_serves_nobody_has_no_limit() -> None:
    """None, and not 0 or 1 users."""
    found, made = search(lambda _: "outside")
    assert (found.users, found.settled) == (None, True)
    assert [trial.users for trial in made] == [8, 4, 2, 1, 1]


def test_the_top_of_the_search_is_measured_twice_too() -> None:
    """One lucky minute is no capacity."""
    found, made = search(lambda _: "inside", replace_most(32))
    assert found.users == 32
    assert [trial.users for trial in made] == [8, 16, 32, 32]


def replace_most(most: int) -> SearchOptions:
    return OPTIONS.model_copy(update={"most": most})


def test_two_trials_that_disagree_are_followed_by_a_third() -> None:
    """One of the two was noise, and nobody knows which."""
    assert next_trial(trials((8, "inside"), (16, "inside"), (16, "outside")), OPTIONS) == Next(
        users=16, why="measurements disagree"
    )


def test_a_single_failure_below_a_success_is_measured_again() -> None:
    """A fleet that serves 32 serves 16."""
    step = next_trial(trials((8, "inside"), (16, "outside"), (32, "inside")), OPTIONS)
    assert step == Next(users=16, why="measurements disagree")


@pytest.mark.parametrize("seed", range(20))
def test_a_noisy_fleet_is_searched_to_an_end_near_its_limit(seed: int) -> None:
    """Within 15 % of the limit one measurement in five is wrong."""
    rng, limit = random.Random(seed), 200  # noqa: S311 - no secret

    def fleet(users: int) -> Outcome:
        wrong = abs(users - limit) < limit * 0.15 and rng.random() < 0.2
        return "inside" if (users <= limit) != wrong else "outside"

    found, _ = search(fleet)
    assert found.users is not None
    assert limit * 0.8 <= found.users <= limit * 1.2


def test_a_trial_that_cannot_be_judged_three_times_ends_the_search() -> None:
    """What was found below it still holds."""
    step = next_trial(trials((8, "inside"), *[(16, "unclear")] * 3), OPTIONS)
    assert isinstance(step, Found)
    assert (step.users, step.settled) == (8, False)
    assert next_trial(trials((8, "inside"), (16, "unclear")), OPTIONS) == Next(
        users=16, why="double"
    )


def test_the_last_trial_ends_the_search() -> None:
    """A search has a bound, and says that it was reached."""
    options = OPTIONS.model_copy(update={"most_trials": 3})
    step = next_trial(trials((8, "inside"), (16, "inside"), (32, "inside")), options)
    assert isinstance(step, Found)
    assert (step.users, step.settled) == (32, False)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "inside"),
        ({"ttft_p95_ms": 1001.0}, "outside"),
        ({"errors": 3}, "outside"),
        ({"ttft_p95_ms": None}, "unclear"),
        ({"requests": 49}, "unclear"),
        ({"lag_p99_ms": 51.0, "ttft_p95_ms": 5000.0}, "unclear"),
        ({"errors": 500, "ttft_p95_ms": None}, "outside"),
    ],
)
def test_a_trial_is_judged_by_what_it_measured(changes: dict[str, float], outcome: Outcome) -> None:
    """A late generator, or too few requests, says nothing about the fleet."""
    assert judge_trial(8, replace(GOOD, **changes), OPTIONS).outcome == outcome


def test_the_hit_ratio_can_be_the_limit() -> None:
    """More agents than the caches hold show there first."""
    options = SearchOptions(hit_ratio=0.95)
    poor, unknown = (replace(GOOD, hit_ratio=ratio) for ratio in (0.9, None))
    outcomes = [judge_trial(8, figures, options).outcome for figures in (GOOD, poor, unknown)]
    assert outcomes == ["inside", "outside", "unclear"]


@pytest.mark.parametrize(
    "changes", [{}, {"ttft_p95_ms": 1, "start": 9, "most": 8}, {"ttft_p95_ms": float("nan")}]
)
def test_a_search_without_a_limit_is_refused(changes: dict[str, float]) -> None:
    """It would double for ever."""
    with pytest.raises(ValidationError):
        SearchOptions.model_validate(changes)
