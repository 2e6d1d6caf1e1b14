"""Find one number of a summary by its path: `hit.ratio`, `ttft_by_context.64-128k.p95`.

A step of a path is a field, or the name of a row: a bucket, a region, a replica; `*` is every row,
of which the worst counts. The buckets are known before a run, so a wrong one is refused; which
regions there are only the run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from loadtest.results.buckets import CONTEXT, TURN
from loadtest.results.summary import Summary

ANY_NAME = "<name>"
EVERY = "*"
ALL_REGIONS = "all"  # how rows name the sum of regions, where they are of regions too
_BUCKETS = {"context": CONTEXT.names, "turn": TURN.names}  # by the end of a field's name
_ROW_KEYS = ("bucket", "name", "replica", "region")
_SHOWN_CHARS = 80


def metric_paths() -> list[str]:
    """Name every number of the summary that a gate can limit; `<name>` stands for any row."""
    return sorted(_numbers(Summary, ""))


def is_metric(path: str) -> bool:
    """Tell whether a path can lead to a number."""
    parts = path.split(".")
    return any(_matches(parts, known.split(".")) for known in metric_paths())


def near_metric(path: str) -> str:
    """Propose the nearest path, and say what paths there are."""
    near = get_close_matches(path[:_SHOWN_CHARS], metric_paths(), n=1, cutoff=0.5)
    listed = f"Known: {', '.join(_short_list())}"
    return f"Did you mean {near[0]!r}? {listed}" if near else listed


def metric_value(
    figures: Mapping[str, Any], path: str, worst: Callable[[Iterable[float]], float] = max
) -> float | None:
    """Read the number from a summary's JSON; None where the run has no such row or value."""
    found: list[Any] = [figures]
    for part in path.split("."):
        found = [after for value in found for after in _steps(value, part)]
    numbers = [
        float(value)
        for value in found
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return worst(numbers) if numbers and len(numbers) == len(found) else None


def _steps(value: Any, part: str) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return [value.get(part)]
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [None]
    if part == EVERY:
        return value
    named = [row for row in value if row.get(_row_key(row)) == part]
    summed = [row for row in named if row.get("region") == ALL_REGIONS]
    return (summed or named)[:1] or [None]


def _row_key(row: Iterable[str]) -> str:
    return next(key for key in _ROW_KEYS if key in row)


def _matches(asked: Sequence[str], known: Sequence[str]) -> bool:
    if len(asked) != len(known):
        return False
    fields = ("", *known[:-1])
    asked = [
        want if have == EVERY and _buckets_of(field) else have
        for have, want, field in zip(asked, known, fields, strict=True)
    ]
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


def _buckets_of(field: str) -> Sequence[str]:
    return _BUCKETS.get(f"_{field}".rpartition("_by_")[2], ())


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


def _rows(kind: Any, prefix: str, field: str) -> Iterator[str]:
    """Name the numbers of rows; rows without a name of their own cannot be addressed."""
    if not is_dataclass(kind) or not isinstance(kind, type):
        return
    if not {entry.name for entry in fields(kind)} & set(_ROW_KEYS):
        return
    for name in _buckets_of(field) or (ANY_NAME,):
        yield from _numbers(kind, f"{prefix}{field}.{name}.")


def _short_list() -> Iterator[str]:
    """List the paths with one line for all buckets of a field."""
    seen: set[str] = set()
    for path in metric_paths():
        parts = path.split(".")
        for place, field in enumerate(parts[:-1]):
            if buckets := _buckets_of(field):
                parts[place + 1] = f"<{' | '.join(buckets)}>"
        short = ".".join(parts)
        if short not in seen:
            seen.add(short)
            yield short
