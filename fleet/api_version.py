"""Say which version of our files this k3fleet reads, and refuse newer ones in their own words."""

from __future__ import annotations

import re

API_VERSION = "k3fleet/v1"
_OURS = re.compile(r"k3fleet/v([0-9]{1,9})")


def newer_fault(version: object) -> tuple[str, str] | None:
    """Say what is wrong with a version that only a later k3fleet can read, and what to do."""
    found = _OURS.fullmatch(version) if isinstance(version, str) else None
    known = _OURS.fullmatch(API_VERSION)
    if not found or not known or int(found[1]) <= int(known[1]):
        return None
    what = f"{version!r} is newer than this k3fleet, which reads {API_VERSION}"
    return what, "Upgrade k3fleet, or use the copy that wrote it"
