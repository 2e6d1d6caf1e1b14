"""Claims about what is written about bought capacity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from fleet.capacity.verdicts import utc_text


def test_times_are_written_in_utc_wherever_they_come_from() -> None:
    """boto3 gives the machine's own zone; hours off, a rack would be cut off."""
    end = datetime(2026, 12, 17, 11, 30, tzinfo=UTC)
    there = end.astimezone(timezone(timedelta(hours=-5)))
    assert utc_text(there) == utc_text(end) == "2026-12-17T11:30:00Z"
