"""Follow parents to the session that they all belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

_KeyT = TypeVar("_KeyT")

Refuse = Callable[[str], NoReturn]
"""Raise ConfigError with what is wrong with the parents."""


def roots(
    parents: Mapping[_KeyT, _KeyT | None], refuse: Callable[[_KeyT, str], NoReturn]
) -> dict[_KeyT, _KeyT]:
    """Give the root of everything that has a parent or is one, each walked once.

    A parent that is not itself recorded is a root. Calls `refuse` for one in a circle of parents.
    """
    found: dict[_KeyT, _KeyT] = {}
    for start in parents:
        path: dict[_KeyT, None] = {}
        node = start
        while node not in found:
            if node in path:
                refuse(node, "parents go in a circle")
            path[node] = None
            parent = parents.get(node)
            if parent is None:
                found[node] = node
                break
            node = parent
        root = found[node]
        for passed in path:
            found[passed] = root
    return found
