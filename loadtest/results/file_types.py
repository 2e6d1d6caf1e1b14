"""Say what the figures of a saved run can be, and name the first that cannot.

Files are edited, cut and copied between versions: what a reader lets through is in a verdict.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from fleet.schema import found_text
from loadtest.client.usage import MOST_TOKENS

MOST_S = 31_536_000.0  # no run takes a year
# A note of the kernel and our clock differ a little: two reads may seem in the wrong order.
_CLOCKS_DIFFER_S = 0.05
_MOST_COUNT = 10**15
_LONG = 60  # characters of a field, of which none is ours

Moment = Annotated[float, Field(ge=-MOST_S, le=MOST_S)]
"""Seconds since the start of the run."""
Span = Annotated[float, Field(ge=-_CLOCKS_DIFFER_S, le=MOST_S)]
"""Seconds that something took."""
SpanMs = Annotated[float, Field(ge=-_CLOCKS_DIFFER_S * 1000, le=MOST_S * 1000)]
Count = Annotated[int, Field(ge=0, le=_MOST_COUNT)]
Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
"""Of one request."""
Share = Annotated[float, Field(ge=0, le=1)]
Factor = Annotated[float, Field(gt=0, allow_inf_nan=False)]

STRICT = ConfigDict(strict=True, extra="forbid")
KNOWN_ONLY = ConfigDict(strict=True, extra="ignore")


def _is_aware(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("has no time zone")
    return text


def _is_histogram(columns: dict[str, list[float]]) -> dict[str, list[float]]:
    if columns.keys() != {"le_ms", "count"}:
        raise ValueError("has other columns than le_ms and count")
    edges, counts = columns["le_ms"], columns["count"]
    if len(edges) != len(counts):
        raise ValueError(f"{len(edges)} edges and {len(counts)} counts")
    if edges != sorted(set(edges)):
        raise ValueError("le_ms does not rise")
    return columns


Timestamp = Annotated[str, AfterValidator(_is_aware)]
Columns = Annotated[
    dict[str, list[Annotated[float, Field(ge=0, le=_MOST_COUNT)]]], AfterValidator(_is_histogram)
]
"""Upper edges in milliseconds, and counts."""


def fault_of(error: ValidationError) -> str:
    """Name the first wrong field, and what is wrong with it."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place, what = ".".join(map(_part, first["loc"])), first["msg"].removeprefix("Value error, ")
    return f"{place}: {what}" if place else what


def is_cut(error: ValidationError) -> bool:
    """Tell whether the text is no JSON at all."""
    return error.errors(include_input=False)[0]["type"] == "json_invalid"


def _part(part: int | str) -> str:
    return (
        part
        if isinstance(part, str) and part.isidentifier() and len(part) < _LONG
        else found_text(part)
    )
