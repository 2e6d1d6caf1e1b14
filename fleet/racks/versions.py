"""Compare versions as the parts of a node write them."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,4})(?![0-9])")
# The DRA driver had versions by year until 25.12, and begins anew at 0.4 (its upgrade notes).
_FIRST_BY_YEAR = 20

Version = tuple[int, ...]


def parse(text: str) -> Version | None:
    """Read the numbers at the start of a version; None for what has none."""
    found = _NUMBERS.match(text.strip()[:64])
    return None if found is None else tuple(int(part) for part in found[1].split("."))


def at_least(found: str, floor: str) -> bool | None:
    """Say whether a version is not older than another; None when either cannot be read."""
    have, want = parse(found), parse(floor)
    if have is None or want is None:
        return None
    return _padded(have) >= _padded(want)


def dra_at_least(found: str, floor: str) -> bool | None:
    """Compare versions of the DRA driver: those by year are older than all others."""
    have, want = parse(found), parse(floor)
    if have is None or want is None:
        return None
    return (have[0] < _FIRST_BY_YEAR, _padded(have)) >= (want[0] < _FIRST_BY_YEAR, _padded(want))


def _padded(version: Version) -> Version:
    return (*version, *(0 for _ in range(5 - len(version))))
