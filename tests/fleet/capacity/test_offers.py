"""Claims about comparing offers, and about which ones are asked for."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.capacity.offers import HORIZON, Offer, Search, check_hours, ranked
from fleet.capacity.order import order_id, read_fee
from fleet.errors import ConfigError

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def offer(name: str, *, fee: str, days: int = 7, racks: int = 1, currency: str = "USD") -> Offer:
    return Offer(
        id=name,
        region="us-east-1",
        zone="us-east-1a",
        rack_type="u-p6e-gb300x72",
        racks=racks,
        instances=18 * racks,
        starts_at=NOW,
        ends_at=NOW + timedelta(days=days),
        hours=Decimal(days * 24),
        fee=Decimal(fee),
        currency=currency,
    )


def test_the_price_of_a_rack_hour_counts_all_racks_and_hours() -> None:
    """Two racks for a week at 672,000 are 336 rack-hours at 2,000."""
    assert offer("a", fee="672000.00", racks=2).fee_per_rack_hour == Decimal("2000.00")


def test_cents_are_not_lost_in_binary_fractions() -> None:
    """A tenth is no binary fraction; a fee that does not match is a purchase that is refused."""
    assert offer("a", fee="0.10").fee + offer("b", fee="0.20").fee == Decimal("0.30")


def test_prices_of_two_currencies_are_not_compared() -> None:
    """One yen is not cheaper than a dollar."""
    offers = [
        offer("yen-2", fee="2", currency="JPY"),
        offer("usd", fee="3"),
        offer("yen-1", fee="1", currency="JPY"),
    ]
    assert [item.id for item in ranked(offers)] == ["yen-1", "yen-2", "usd"]


def test_an_offer_of_two_windows_is_listed_once() -> None:
    """Windows touch, and a cloud answers both with it."""
    assert len(ranked([offer("a", fee="1"), offer("a", fee="1")])) == 1


def test_the_id_alone_makes_no_other_offer() -> None:
    """Everything else has to be the same, the price first."""
    assert offer("a", fee="1").same_goods(offer("b", fee="1"))
    assert not offer("a", fee="1").same_goods(offer("b", fee="2"))


@given(
    start_h=st.integers(0, 1000),
    length_h=st.integers(1, 1344),
    hours=st.lists(st.integers(1, 182).map(lambda days: days * 24), min_size=1, max_size=3),
)
def test_questions_cover_every_start(start_h: int, length_h: int, hours: list[int]) -> None:
    """A gap of an hour would hide the one offer there is."""
    start = NOW + timedelta(hours=start_h)
    search = Search(
        rack_type="u",
        racks=1,
        hours=tuple(hours),
        starts_after=start,
        starts_before=start + timedelta(hours=length_h),
    )
    questions = list(search.questions(["a", "b", "a"]))
    for length in hours:
        for region in ("a", "b"):
            spans = [
                (item.starts_after, item.ends_before - timedelta(hours=length))
                for item in questions
                if (item.region, item.hours) == (region, length)
            ]
            spans = list(dict.fromkeys(spans))  # the same duration may be asked for twice
            assert spans[0][0] == start
            assert spans[-1][1] == search.starts_before
            assert all(left[1] == right[0] for left, right in itertools.pairwise(spans))


def test_eight_weeks_are_eight_questions() -> None:
    """EC2 lets an account ask only some times a second."""
    search = Search(
        rack_type="u", racks=1, hours=(168,), starts_after=NOW, starts_before=NOW + HORIZON
    )
    assert len(list(search.questions(["a"]))) == 8


@pytest.mark.parametrize(("days", "hours"), [(1, 24), (14, 336), (21, 504), (182, 4368)])
def test_durations_that_are_sold(days: int, hours: int) -> None:
    """By the day for two weeks, then by the week for half a year."""
    assert check_hours(days * 86_400) == hours


@pytest.mark.parametrize("hours", [0, 1, 36, 15 * 24, 189 * 24])
def test_durations_that_are_not_sold(hours: int) -> None:
    """AWS answers them with an empty list, which reads as sold out."""
    with pytest.raises(ConfigError, match="blocks are not sold for"):
        check_hours(hours * 3600)


@pytest.mark.parametrize(
    ("text", "fee"), [("123456.78", "123456.78"), (" 1,234,567 ", "1234567"), ("1_000", "1000")]
)
def test_sums_are_read_as_people_write_them(text: str, fee: str) -> None:
    """With the commas of the invoice."""
    assert read_fee(text, "--max-fee") == Decimal(fee)


@pytest.mark.parametrize("text", ["", "x", "NaN", "Infinity", "-1", "١٢", "1 000 USD"])
def test_what_is_no_sum_is_refused(text: str) -> None:
    """NaN is neither above nor below any price."""
    with pytest.raises(ConfigError, match="is no sum of money"):
        read_fee(text, "--max-fee")


def test_orders_sort_by_time_and_differ() -> None:
    """Their names are files, and tags."""
    chance = random.Random(1)  # noqa: S311 - no secret
    names = [order_id(NOW + timedelta(seconds=second // 2), chance) for second in range(100)]
    assert len(set(names)) == 100
    assert [name[:16] for name in names] == sorted(name[:16] for name in names)
