"""Claims about offered and achieved load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loadtest.results.offered import offered_load

Make = Callable[..., Any]


def test_arrivals_on_time_achieve_what_was_offered(make_record: Make) -> None:
    """A constant delay is latency of the generator, not less load."""
    records = [
        make_record(session=f"s-{n}", due_s=float(n), sent_s=n + 0.01, turn=turn)
        for n in range(11)
        for turn in (1, 2)
    ]
    found = offered_load(records)
    assert (found.offered_per_min, found.achieved_share) == (60.0, 1.0)


def test_a_generator_that_falls_behind_offers_less(make_record: Make) -> None:
    """Each arrival a little later than the one before: half of the rate."""
    records = [make_record(session=f"s-{n}", due_s=float(n), sent_s=2.0 * n) for n in range(11)]
    found = offered_load(records)
    assert (found.offered_per_min, found.achieved_per_min, found.achieved_share) == (60, 30, 0.5)


def test_a_closed_loop_offers_nothing(make_record: Make) -> None:
    """Its agents wait for answers, and nothing is due."""
    assert offered_load([make_record(session=f"s-{n}") for n in range(5)]).achieved_share is None
