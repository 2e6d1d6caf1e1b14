"""Read figures.json: what a generator summed up while it ran. `LiveFigures.plain` makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, with_config

from fleet.errors import LoadError
from loadtest.results.buckets import CONTEXT, TURN
from loadtest.results.file_types import KNOWN_ONLY, Count, fault_of
from loadtest.results.live_figures import Counts, Delta

_Row = list[str | Count]
_MOST_COUNTS = len(fields(Counts))


def _is_packed(packed: list[int]) -> list[int]:
    buckets, counts = packed[::2], packed[1::2]
    if len(buckets) != len(counts):
        raise ValueError("is not bucket, count, bucket, count")
    if any(not -1_000 <= bucket <= 4_000 for bucket in buckets):  # under 1 us to over a year
        raise ValueError("has a bucket that no duration falls into")
    if any(not 0 <= count <= 10**15 for count in counts):
        raise ValueError("has a count that is none")
    return packed


def _counts_after(*names: type) -> Callable[[_Row], _Row]:
    """Check that a row begins with values of these types, and that counts follow."""

    def check(row: _Row) -> _Row:
        head, counts = row[: len(names)], row[len(names) :]
        if [type(item) for item in head] != list(names):
            raise ValueError("does not begin with what it counts")
        if len(counts) > _MOST_COUNTS or not all(isinstance(count, int) for count in counts):
            raise ValueError(f"has no {_MOST_COUNTS} counts")
        return row

    return check


def _is_cell(row: _Row) -> _Row:
    _, context, turn = _counts_after(str, int, int)(row)[:3]
    if int(context) >= len(CONTEXT.names) or int(turn) >= len(TURN.names):
        raise ValueError("is of no bucket")
    return row


@with_config(KNOWN_ONLY)
@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """Say what the file holds."""

    histograms: list[
        tuple[
            str,
            str,
            Annotated[int, Field(ge=0, lt=len(CONTEXT.names))],
            Annotated[int, Field(ge=0, lt=len(TURN.names))],
            Annotated[list[int], AfterValidator(_is_packed)],
        ]
    ] = field(default_factory=list)
    cells: list[Annotated[_Row, AfterValidator(_is_cell)]] = field(default_factory=list)
    replicas: list[Annotated[_Row, AfterValidator(_counts_after(str, str))]] = field(
        default_factory=list
    )


_FIGURES = TypeAdapter(_Figures)


def read_figures(path: Path) -> Delta:
    """Read the file; raises LoadError that names what is wrong."""
    try:
        return asdict(_FIGURES.validate_json(path.read_bytes()))
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}. Make it readable, or remove it.") from error
    except ValidationError as error:
        raise LoadError(
            f"{path}: not readable ({fault_of(error)}). Remove it, or run the load test again."
        ) from error
