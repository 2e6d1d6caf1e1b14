"""Compare the model cards under which replicas register. Pure.

A frontend of Dynamo 1.6.1 that knows a model takes no requests to a worker whose card says
another block size, though its router counts the worker as registered (measured: 0 of 30 requests).
So a card that differs is a release that must not serve beside the other, whatever its file says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Where a worker serves its files, and how much it takes on: no part of what it answers.
_OWN = frozenset({"path", "source_path", "instance_id", "runtime_data", "data_parallel_start_rank"})
# What releases may differ in side by side (`fleet.rollout.mixing`), as cards have it.
_LIMITS = frozenset({"total_kv_blocks", "max_num_seqs", "max_num_batched_tokens", "enable_eagle"})


def cards_differ(card: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Name the first field in which two cards differ, with both values; empty where none does."""
    found, wanted = dict(_flat(card)), dict(_flat(other))
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            return f"{name} is {found.get(name)!r}, not {wanted.get(name)!r}"
    return ""


def _flat(value: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, object]]:
    for key, item in value.items():
        if key in _OWN or key in _LIMITS:
            continue
        name = f"{at}.{key}" if at else key
        if isinstance(item, Mapping):
            yield from _flat(item, name)
        else:
            yield name, item
