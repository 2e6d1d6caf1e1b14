"""Versions compare as their makers count them."""

from __future__ import annotations

import pytest

from fleet.racks.versions import at_least, dra_at_least


@pytest.mark.parametrize(
    ("found", "floor", "holds"),
    [
        ("580.95.05", "580.95.05", True),
        ("580.105.08", "580.95.05", True),
        ("580.82.07", "580.95.05", False),
        ("6.12.37-61.amzn2023", "6.1", True),
        ("6.1", "6.1.0", True),
        ("5.15.0", "6.1", False),
        ("", "6.1", None),
        ("main", "6.1", None),
        ("9" * 5000, "6.1", None),
    ],
)
def test_versions_are_numbers(found: str, floor: str, holds: bool | None) -> None:
    """And what is none is not known, rather than old or new."""
    assert at_least(found, floor) is holds


@pytest.mark.parametrize(
    ("found", "holds"),
    [("v0.5.1", True), ("0.4.1", False), ("v25.8.0", False), ("25.12.1", False), ("v1.0", True)],
)
def test_years_come_before_the_new_count(found: str, holds: bool) -> None:
    """25.12 is older than 0.4, which compares the other way round as a number."""
    assert dra_at_least(found, "0.5.0") is holds
