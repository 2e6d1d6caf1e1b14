"""Find the steady part of a run, how sure its figures are, and whether the load was too high.

Window. With stages: from the end of the last warm-up or ramp to the start of the drain. Without:
the run less its first and last tenth; only the figures named `steady` are of that window then.
Confidence. Batch means: the window is cut into slices of 10 to 30 s, each gives one value, and the
interval is Student's t over them, 95 %. Neighbouring requests depend on each other, slices hardly.
Over-saturation. As guidellm judges it: requests in flight and TTFT both rise over the window. Here
each slice is a point, a line is fitted, and both slopes must be above zero with 95 % confidence
and carry at least a fifth of the mean over the window: a queue that only grows a little is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from loadtest.results.quantiles import Spread, nearest_rank, spread_ms
from loadtest.results.records import Generator, Record

TRIMMED_SHARE = 0.1
LEAST_SLICES, MOST_SLICES, LEAST_SLICE_S = 5, 30, 10.0
MATERIAL_GROWTH = 0.2
_BEFORE, _AFTER = ("warm", "ramp"), "drain"

# Student's t, two-sided 95 %, by degrees of freedom 1, 2, … 29.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045,
)  # fmt: skip

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Hold the steady part of a run, in seconds since its start."""

    from_s: float
    to_s: float
    staged: bool
    """The stages say so; else it is a trimmed run."""

    @property
    def length_s(self) -> float:
        """Give its length."""
        return self.to_s - self.from_s

    def holds(self, record: Record) -> bool:
        """Tell whether a request was sent within."""
        return self.from_s <= record.sent_s < self.to_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Hold a mean over slices and its 95 % confidence interval; None with too few slices."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """Hold how requests in flight and TTFT change over the window; None with too few slices."""

    in_flight_per_min: float | None
    ttft_ms_per_min: float | None
    over_saturated: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """Hold the figures of the steady window."""

    from_s: float
    to_s: float
    staged: bool
    requests: int
    slices: int
    ratio: float | None
    ttft_ms: Spread
    output_tokens_per_s: float
    ratio_interval: Interval
    ttft_p50_interval_ms: Interval
    ttft_p95_interval_ms: Interval
    output_tokens_per_s_interval: Interval
    saturation: Saturation


def steady_window(generator: Generator) -> Window:
    """Find the steady window of a run."""
    end_s = generator.duration_s
    starts = [*generator.stages, ("", end_s)]
    spans = [
        (str(name).lower(), float(start_s), float(stop_s))
        for (name, start_s), (_, stop_s) in pairwise(starts)
    ]
    before = [stop_s for name, _, stop_s in spans if name.startswith(_BEFORE)]
    from_s = max(before, default=0.0)
    to_s = min(
        (s for name, s, _ in spans if name.startswith(_AFTER) and s >= from_s), default=end_s
    )
    if spans and to_s > from_s:
        return Window(from_s=from_s, to_s=to_s, staged=True)
    trimmed_s = end_s * TRIMMED_SHARE
    return Window(from_s=trimmed_s, to_s=end_s - trimmed_s, staged=False)


def steady_figures(records: Sequence[Record], window: Window) -> Steady:
    """Compute the figures of the window, with confidence."""
    good = [record for record in records if record.error is None]
    inside = [record for record in good if window.holds(record)]
    edges = _edges(window)
    groups = _by_slice(inside, edges)
    tokens_per_s = _output_rates(good, edges)
    ttfts = [[r.ttft_s * 1000 for r in group if r.ttft_s is not None] for group in groups]
    whole = np.array([window.from_s, window.to_s])
    output = float(_output_rates(good, whole)[0]) if window.length_s > 0 else 0.0
    return Steady(
        from_s=round(window.from_s, 3),
        to_s=round(window.to_s, 3),
        staged=window.staged,
        requests=sum(window.holds(record) for record in records),
        slices=len(groups),
        ratio=_ratio(inside),
        ttft_ms=spread_ms(record.ttft_s for record in inside if record.ttft_s is not None),
        output_tokens_per_s=round(output, 1),
        ratio_interval=batch_means([_ratio(group) for group in groups]),
        ttft_p50_interval_ms=batch_means([nearest_rank(values, 0.50) for values in ttfts]),
        ttft_p95_interval_ms=batch_means([nearest_rank(values, 0.95) for values in ttfts]),
        output_tokens_per_s_interval=batch_means(list(map(float, tokens_per_s))),
        saturation=_saturation(records, ttfts, edges),
    )


def batch_means(values: Sequence[float | None]) -> Interval:
    """Give the mean of what slices measured, with its interval."""
    known = [value for value in values if value is not None]
    if len(known) < LEAST_SLICES:
        return Interval(mean=None, low=None, high=None)
    mean = float(np.mean(known))
    error = float(np.std(known, ddof=1)) / math.sqrt(len(known)) * _T95[len(known) - 2]
    return Interval(mean=round(mean, 6), low=round(mean - error, 6), high=round(mean + error, 6))


def _edges(window: Window) -> Array:
    """Cut the window into equal slices of 10 s at least, 30 of them at most; maybe none."""
    count = min(MOST_SLICES, int(max(0.0, window.length_s) // LEAST_SLICE_S))
    return np.linspace(window.from_s, window.to_s, count + 1) if count else np.array([0.0])


def _by_slice(inside: Sequence[Record], edges: Array) -> list[list[Record]]:
    groups: list[list[Record]] = [[] for _ in range(len(edges) - 1)]
    for record in inside if groups else ():
        groups[int(np.searchsorted(edges, record.sent_s, side="right")) - 1].append(record)
    return groups


def _ratio(good: Sequence[Record]) -> float | None:
    reported = [record for record in good if record.cached_tokens is not None]
    attainable = sum(record.attainable_tokens for record in reported)
    cached = sum(record.cached_tokens or 0 for record in reported)
    return round(cached / attainable, 6) if attainable else None


def _overlap_s(starts: Array, ends: Array, edges: Array) -> Array:
    """Give how long each span (row) is within each slice (column)."""
    low, high = edges[:-1], edges[1:]
    within = np.minimum(ends[:, None], high) - np.maximum(starts[:, None], low)
    clipped: Array = np.clip(within, 0.0, None)
    return clipped


def _output_rates(good: Sequence[Record], edges: Array) -> Array:
    """Give output tokens per second of each slice; a request's are spread over its streaming."""
    first = np.array([record.sent_s + (record.ttft_s or 0.0) for record in good])
    last = np.maximum(np.array([record.sent_s + record.e2e_s for record in good]), first + 1e-6)
    tokens = np.array([float(record.output_tokens or 0) for record in good])
    shares = _overlap_s(first, last, edges) / (last - first)[:, None]
    rates: Array = tokens @ shares / np.diff(edges)
    return rates


def _saturation(
    records: Sequence[Record], ttfts: Sequence[Sequence[float]], edges: Array
) -> Saturation:
    starts = np.array([record.sent_s for record in records])
    ends = np.array([record.sent_s + record.e2e_s for record in records])
    in_flight = _overlap_s(starts, ends, edges).sum(axis=0) / np.diff(edges)
    middles = (edges[:-1] + edges[1:]) / 2
    means = [float(np.mean(values)) if values else None for values in ttfts]
    flight, ttft = _growth(middles, list(map(float, in_flight))), _growth(middles, means)
    if flight is None or ttft is None:
        return Saturation(in_flight_per_min=None, ttft_ms_per_min=None, over_saturated=None)
    return Saturation(
        in_flight_per_min=round(flight[0] * 60, 4),
        ttft_ms_per_min=round(ttft[0] * 60, 4),
        over_saturated=flight[1] and ttft[1],
    )


def _growth(times_s: Array, values: Sequence[float | None]) -> tuple[float, bool] | None:
    """Fit a line; tell its slope per second, and whether it surely and materially rises."""
    points = [(t, v) for t, v in zip(times_s, values, strict=True) if v is not None]
    if len(points) < LEAST_SLICES:
        return None
    x, y = np.array(points).T
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    residuals = y - y.mean() - slope * (x - x.mean())
    freedom = len(points) - 2
    error = math.sqrt(float((residuals**2).sum()) / freedom / spread) * _T95[freedom - 1]
    grown = slope * float(x[-1] - x[0])
    return slope, slope > error and grown >= MATERIAL_GROWTH * float(y.mean())
