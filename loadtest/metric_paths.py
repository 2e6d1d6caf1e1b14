"""Find one number of a summary by its path: `hit.ratio`, `ttft_by_context.64-128k.p95`.

A step of a path is a field, or the name of a row: a bucket, a region, a replica. The buckets are
known before a run, so a wrong one is refused; which regions there are only the run knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from loadtest.buckets import CONTEXT, TURN
from loadtest.summary import Summary

ANY_NAME = "<name>"
_BUCKETS = {"context": CONTEXT.names, "turn": TURN.names}  # by the end of a field's name
_ROW_KEYS = ("bucket", "name")
_SHOWN_CHARS = 80


def metric_paths() -> list[str]:
    """Name every number of the summary that a gate can limit; `<name>` stands for any row."""
    return sorted(_numbers(Summary, ""))


def is_metric(path: str) -> bool:
    """Tell whether a path can lead to a number."""
    return any(_matches(path.split("."), known.split(".")) for known in metric_paths())


def near_metric(path: str) -> str:
    """Propose the nearest path, and say what paths there are."""
    near = get_close_matches(path[:_SHOWN_CHARS], metric_paths(), n=1, cutoff=0.5)
    listed = f"Known: {', '.join(_short_list())}"
    return f"Did you mean {near[0]!r}? {listed}" if near else listed


def metric_value(figures: Mapping[str, Any], path: str) -> float | None:
    """Read the number from a summary's JSON; None where the run has no such row or value."""
    value: Any = figures
    for part in path.split("."):
        value = _step(value, part)
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usable else None


def _step(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, Sequence) and not isinstance(value, str):
        named = (row for row in value if part in (row.get(key) for key in _ROW_KEYS))
        return next(named, None)
    return None


def _matches(asked: Sequence[str], known: Sequence[str]) -> bool:
    if len(asked) != len(known):
        return False
    pairs = zip(asked, known, strict=True)
    return all(have == want or (want == ANY_NAME and have) for have, want in pairs)


def _numbers(kind: type, prefix: str) -> Iterator[str]:
    hints = get_type_hints(kind)
    for entry in fields(kind):
        for choice in _choices(hints[entry.name]):
            if choice in (int, float):
                yield prefix + entry.name
            elif is_dataclass(choice) and isinstance(choice, type):
                yield from _numbers(choice, f"{prefix}{entry.name}.")
            elif get_origin(choice) is tuple:
                yield from _rows(get_args(choice)[0], prefix, entry.name)


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


def _rows(kind: Any, prefix: str, field: str) -> Iterator[str]:
    """Name the numbers of rows; rows without a name of their own cannot be addressed."""
    if not is_dataclass(kind) or not isinstance(kind, type):
        return
    if not {entry.name for entry in fields(kind)} & set(_ROW_KEYS):
        return
    for name in _BUCKETS.get(field.rpartition("_by_")[2], (ANY_NAME,)):
        yield from _numbers(kind, f"{prefix}{field}.{name}.")


def _short_list() -> Iterator[str]:
    """List the paths with one line for all buckets of a field."""
    seen: set[str] = set()
    for path in metric_paths():
        parts = path.split(".")
        buckets = _BUCKETS.get(parts[0].rpartition("_by_")[2])
        if buckets:
            parts[1] = f"<{' | '.join(buckets)}>"
        short = ".".join(parts)
        if short not in seen:
            seen.add(short)
            yield short
