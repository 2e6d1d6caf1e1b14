"""Infer sessions from requests that name none: by the prefixes that they share.

An id of a prefix block names its block and all before it, so a request that holds the last whole
block of an earlier one goes on with it. Blocks that many requests hold are a system prompt and say
nothing about sessions.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from loadtest.replay.files import BREATH_ITEMS, breathe

_POPULAR_SHARE = 0.01
"""Of all requests: a block that more of them hold is no session's own."""
_SAMPLE = 100_000
"""Requests that are looked at to find such blocks."""
_POPULAR_LEAST = 64
"""The longest session of the public Mooncake trace has 43 turns."""


def chains(rows: Sequence[array[int]]) -> list[int]:
    """Give the session number of each request, in order of time; numbers count from 0."""
    popular = _popular(rows)
    tips: dict[int, int] = {}
    result: list[int] = []
    sessions = 0
    for number, ids in enumerate(rows):
        if not number % BREATH_ITEMS:
            breathe()
        tip = next((id_ for id_ in reversed(ids) if id_ in tips), None)
        if tip is None:
            session, sessions = sessions, sessions + 1
        else:
            session = tips.pop(tip)
        result.append(session)
        if ids and ids[-1] not in popular:
            tips[ids[-1]] = session
    return result


def _popular(rows: Sequence[array[int]]) -> frozenset[int]:
    sample = rows[:: len(rows) // _SAMPLE + 1]
    filled = [np.frombuffer(ids, dtype=np.uint64) for ids in sample if ids]
    if not filled:
        return frozenset()
    ids, counts = np.unique(np.concatenate(filled), return_counts=True)
    limit = max(_POPULAR_LEAST, _POPULAR_SHARE * len(sample))
    return frozenset(ids[counts > limit].tolist())
