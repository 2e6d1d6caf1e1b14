"""Cross between plain dicts and the Kubernetes client's typed objects.

The client's own conversion methods carry no types; these do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def typed(kind: type[T], raw: Mapping[str, Any]) -> T:
    """Make an API object of a kind from plain data."""
    loaded: T = kind.from_dict(raw)  # type: ignore[attr-defined]
    return loaded


def plain(item: object) -> dict[str, Any]:
    """Return an API object as plain data."""
    data: dict[str, Any] = item.to_dict()  # type: ignore[attr-defined]
    return data
