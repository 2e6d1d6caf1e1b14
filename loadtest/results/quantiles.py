"""Compute percentiles one way everywhere: nearest rank, so every value was really measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


def nearest_rank(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that at least `share` (0-1) of all values do not exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def histogram_rank(columns: Mapping[str, Sequence[float]], share: float) -> float | None:
    """Return the upper edge of the bucket that holds the nearest-rank value."""
    counts = columns["count"]
    rank, seen = math.ceil(share * sum(counts)), 0.0
    for edge, count in zip(columns["le_ms"], counts, strict=True):
        seen += count
        if count and seen >= rank:
            return edge
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Hold the mean, some quantiles and the end of one number; zeros when there is nothing."""

    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Quantiles:
        """Summarise values."""
        ordered = sorted(values)
        if not ordered:
            return cls()
        p50, p90, p99 = (float(nearest_rank(ordered, share) or 0) for share in (0.5, 0.9, 0.99))
        mean = sum(ordered) / len(ordered)
        return cls(mean=mean, p50=p50, p90=p90, p99=p99, most=float(ordered[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Hold the percentiles of a latency in milliseconds, None without a sample."""

    p50: float | None
    p95: float | None
    p99: float | None


def spread_ms(seconds: Iterable[float]) -> Spread:
    """Summarise seconds as milliseconds."""
    ordered = sorted(seconds)
    p50, p95, p99 = (
        None if value is None else round(value * 1000, 3)
        for value in (nearest_rank(ordered, share) for share in (0.50, 0.95, 0.99))
    )
    return Spread(p50=p50, p95=p95, p99=p99)
