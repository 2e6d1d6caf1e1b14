"""What is kept of a region while a rollout is driven, and how it gets few."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.rollout.counters import Counts, FirstTokens, PromptTokens
from fleet.rollout.figures import Figures, counted, joined, thinned


def figure(from_s: float, to_s: float, **more: Any) -> Figures:
    return Figures.model_validate(
        {"region": "east", "from_s": from_s, "to_s": to_s, "serving": 3, "updated": 0}
        | {"replicas": 4, **more}
    )


def row(count: int, region: str = "east") -> list[Figures]:
    """Give figures that follow each other, a second each, with one request."""
    return [figure(n, n + 1, region=region, requests=1.0) for n in range(count)]


def test_shares_are_of_what_was_counted() -> None:
    """Nothing counted is not zero: it is not known."""
    some = figure(
        0, 5, requests=200.0, errors=1.0, prompt_tokens=1000.0, cached_tokens=900.0,
        answers=20.0, first_token_s=4.0, buckets={0.1: 10.0, 0.5: 9.0, 1.0: 1.0},
    )  # fmt: skip
    assert (some.error_rate, some.hit, some.ttft_mean_s) == (0.005, 0.9, 0.2)
    assert some.ttft_p95_s == 0.5
    none = figure(0, 5, requests=0.0, errors=0.0)
    assert (none.error_rate, none.hit, none.ttft_mean_s, none.ttft_p95_s) == (None,) * 4


def test_of_answers_past_the_last_bucket_nobody_knows_how_late_they_were() -> None:
    """The last edge would be a claim that they were within it."""
    assert figure(0, 5, answers=20.0, buckets={0.1: 18.0}).ttft_p95_s is None


def test_buckets_are_kept_apart_and_without_those_that_are_empty() -> None:
    """A histogram's page has 20 sums; most say nothing new."""
    first = FirstTokens(answers=9, seconds=3.0, buckets={0.1: 2, 0.2: 2, 0.4: 7, math.inf: 9})
    found = counted(Counts(requests=9, tokens=PromptTokens(prompt=5), first_tokens=first))
    assert found["buckets"] == {0.1: 2, 0.4: 5}
    assert (found["answers"], found["first_token_s"]) == (9, 3.0)
    assert counted(None) == {}


def test_two_that_follow_each_other_are_one_over_both() -> None:
    """Counts add up, the fewest that served stays the fewest."""
    one = figure(0, 5, serving=2, requests=10.0, errors=1.0, buckets={0.1: 3.0})
    two = figure(5, 10, updated=1, requests=30.0, errors=0.0, buckets={0.1: 1.0, 0.2: 2.0})
    both = joined(one, two)
    assert (both.from_s, both.to_s, both.serving, both.updated) == (0, 10, 2, 1)
    assert (both.error_rate, both.buckets) == (0.025, {0.1: 4.0, 0.2: 2.0})


def test_a_look_that_failed_hides_nothing_of_its_neighbour() -> None:
    """What frontends said is kept, what they did not say is not made up."""
    assert joined(figure(0, 5), figure(5, 10, requests=3.0)).requests == 3.0
    assert joined(figure(0, 5), figure(5, 10)).requests is None


def test_those_with_a_time_between_them_stay_apart() -> None:
    """Nobody looked in between: one figure over the gap would say that somebody did."""
    apart = [figure(0, 5), figure(60, 65), figure(65, 70)]
    assert thinned(apart, 2) == (figure(0, 5), figure(60, 70))


@given(st.integers(0, 300), st.integers(4, 50))
def test_few_are_left_and_nothing_is_lost(count: int, most: int) -> None:
    """A rollout of weeks has a file as large as one of hours."""
    both = [one for pair in zip(row(count), row(count, "west"), strict=True) for one in pair]
    found = thinned(both, most)
    assert len(found) <= max(most, 2)
    assert sum(one.requests or 0 for one in found) == 2 * count
    for region in ("east", "west"):
        own = [one for one in found if one.region == region]
        assert all(a.to_s == b.from_s for a, b in pairwise(own))


def test_few_are_left_alone() -> None:
    """Only what is too much is made coarser."""
    assert thinned(row(7), 7) == tuple(row(7))


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_file_that_says_nonsense_is_refused(value: str) -> None:
    """It lies in a folder where others write."""
    with pytest.raises(ValueError, match="finite"):
        figure(0, 5, requests=float(value))
