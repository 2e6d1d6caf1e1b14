"""The figures that two runs are compared by, in a form that can be resampled quickly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtest.results.records import Record

Counts = NDArray[np.int64]
Read = Callable[[Record], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Hold the parts and wholes of a quotient, one of each for each request."""

    parts: NDArray[np.float64]
    wholes: NDArray[np.float64]

    def value(self) -> float | None:
        """Divide the sums; None where nothing was measured."""
        whole = float(self.wholes.sum())
        return float(self.parts.sum()) / whole if whole else None

    def resampled(self, counts: Counts, group_of: Counts) -> NDArray[np.float64]:
        """Divide for each resample: `counts` has a row for each, with how often a group is in it.

        NaN where nothing was measured.
        """
        size = counts.shape[1]
        parts = counts @ np.bincount(group_of, self.parts, size)
        wholes = counts @ np.bincount(group_of, self.wholes, size)
        quotients = np.full(len(counts), np.nan)
        np.divide(parts, wholes, out=quotients, where=wholes != 0)
        return quotients


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """Sum of parts ÷ sum of wholes, over the requests that have both."""

    name: str
    part: Read
    whole: Read
    more_is_better: bool = False

    def figures(self, records: Sequence[Record]) -> Sums:
        """Read parts and wholes."""
        pairs = [(self.part(record), self.whole(record)) for record in records]
        known = [(0.0, 0.0) if None in pair else pair for pair in pairs]
        columns = np.array(known, dtype=np.float64).reshape(-1, 2)
        return Sums(parts=columns[:, 0], wholes=columns[:, 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Hold the values of a percentile."""

    share: float
    values: NDArray[np.float64]  # in rising order
    places: Counts  # of their requests

    def value(self) -> float | None:
        """Find the nearest rank; None where nothing was measured."""
        found = self._rank(np.ones(len(self.values), dtype=np.int64))
        return None if np.isnan(found) else found

    def resampled(self, counts: Counts, group_of: Counts) -> NDArray[np.float64]:
        """Find the rank for each resample, as `Sums.resampled` does the quotient."""
        groups = group_of[self.places]
        return np.array([self._rank(row[groups]) for row in counts])

    def _rank(self, weights: Counts) -> float:
        totals = np.cumsum(weights)
        if not len(totals) or not totals[-1]:
            return float("nan")
        rank = max(1.0, np.ceil(self.share * totals[-1]))
        return float(self.values[np.searchsorted(totals, rank)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """A percentile, nearest rank, over the requests that have the value."""

    name: str
    share: float
    read: Read
    more_is_better: bool = False

    def figures(self, records: Sequence[Record]) -> Ranked:
        """Sort the values once for all resamples."""
        found = [(value, at) for at, r in enumerate(records) if (value := self.read(r)) is not None]
        found.sort()
        return Ranked(
            share=self.share,
            values=np.array([value for value, _ in found], dtype=np.float64),
            places=np.array([at for _, at in found], dtype=np.int64),
        )


Figures = Sums | Ranked
Metric = Quotient | Percentile


def _cached(record: Record) -> float | None:
    return None if record.error is not None else record.cached_tokens


def _ttft_ms(record: Record) -> float | None:
    return None if record.error is not None or record.ttft_s is None else record.ttft_s * 1000


def _e2e_ms(record: Record) -> float | None:
    return None if record.error is not None else record.e2e_s * 1000


def _decode_ms(record: Record) -> float | None:
    ttft_ms, e2e_ms = _ttft_ms(record), _e2e_ms(record)
    return None if ttft_ms is None or e2e_ms is None else e2e_ms - ttft_ms


def _later_tokens(record: Record) -> float | None:
    return max(0, record.output_tokens - 1) if record.output_tokens else None


METRICS: tuple[Metric, ...] = (
    Quotient(
        name="achieved ÷ attainable cache hit",
        part=_cached,
        whole=lambda record: record.attainable_tokens,
        more_is_better=True,
    ),
    Quotient(
        name="cache hit, token-weighted",
        part=_cached,
        whole=lambda record: record.prompt_tokens,
        more_is_better=True,
    ),
    Percentile(name="TTFT p50, ms", share=0.50, read=_ttft_ms),
    Percentile(name="TTFT p95, ms", share=0.95, read=_ttft_ms),
    Quotient(name="time per output token, ms", part=_decode_ms, whole=_later_tokens),
    Quotient(name="mean E2E, ms", part=_e2e_ms, whole=lambda _: 1.0),
    Quotient(
        name="failed requests",
        part=lambda record: float(record.error is not None),
        whole=lambda _: 1.0,
    ),
)
