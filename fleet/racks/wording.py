"""Name the first few of many, so that a sentence stays one."""

from __future__ import annotations

from collections.abc import Iterable

_NAMED = 4


def named(names: Iterable[str]) -> str:
    """Join names, and count those that are left out."""
    found = list(names)
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more
