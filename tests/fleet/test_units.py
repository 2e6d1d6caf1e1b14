"""Human text for sizes and durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ConfigError
from fleet.units import format_bytes, format_duration, parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1.56TB", 1_560_000_000_000),
        ("181.1GiB", 194_454_644_326),  # 181.1 x 2^30, rounded down
        ("512 MiB", 536_870_912),
        ("4096", 4096),
        ("10kb", 10_000),
    ],
)
def test_sizes_are_read_exactly(text: str, count: int) -> None:
    """Memory arithmetic starts from these numbers, so no float may touch them."""
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("15m", 900.0), ("1h30m", 5400.0), ("250ms", 0.25), ("2", 2.0), ("1.5h", 5400)],
)
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    """All durations inside the program are seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "TB", "-1GB", "1e9", "1,5GB", "ten GB", "1 G B", "9" * 40])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    """A size that is read wrongly buys the wrong disks."""
    with pytest.raises(ConfigError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "m", "-1s", "15 minutes", "15:00", "30m1h", "1m1m", "1s!"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    """`30m1h` is a slip of the hand; guessing would hide it."""
    with pytest.raises(ConfigError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**16), st.booleans())
def test_a_written_size_reads_back_within_one_percent(count: int, binary: bool) -> None:
    """Three digits are for people; they must still be the right three."""
    assert parse_bytes(format_bytes(count, binary=binary)) == pytest.approx(count, rel=0.01)


@given(st.integers(min_value=0, max_value=10**10))
def test_a_written_duration_reads_back_to_the_millisecond(milliseconds: int) -> None:
    """Reports and options use the same text for the same time."""
    text = format_duration(milliseconds / 1000)
    assert round(parse_duration(text) * 1000) == milliseconds
