"""Sum up a run while it goes on: latencies as histograms, tokens and hits as counters.

For whoever shows or sends them (all per process; a master merges what its workers send):

- `recorder.figures` is the `LiveFigures` of a run; the recorder adds every record to it.
- `delta()` gives what came since the last `delta()` as plain lists and numbers that msgpack and
  JSON take; `merge(delta)` adds another process's. Any order, any grouping, the same figures.
- `latency_rows(cut)` gives one dict per metric, region and bucket: metric, region, bucket, n,
  failures, p50_ms, p95_ms, p99_ms, adjusted_p99_ms. `cut` is "region", "context" or "turn".
  `adjusted_p99_ms` counts each failed request as endless; None = it falls among them.
- `hit_rows(cut)` gives one dict per region, turn bucket or replica (`cut` "region", "turn",
  "replica"): region, bucket, requests, errors, unreported, prompt, cached, attainable,
  attainable_global, output, hit, attainable_hit, ratio, regret.
- `totals(elapsed_s)` gives one dict: requests, errors, output_tokens_per_s,
  output_tokens_per_s_gpu, goodput_share, good_requests_per_s, good_tokens_per_s; None = not known.
- `plain()` gives all there is, as a delta; `clear()` forgets all, for the next test.

Counts are exact after any merge; percentiles are nearest rank and at most 1 % high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Literal

from loadtest.results.buckets import CONTEXT, TURN
from loadtest.results.histogram import Histogram
from loadtest.results.latencies import METRICS, is_good, latencies_ms
from loadtest.results.records import Record
from loadtest.results.result_options import ResultOptions

LatencyCut = Literal["region", "context", "turn"]
HitCut = Literal["region", "turn", "replica"]
Delta = dict[str, Any]
ALL = "all"

Cell = tuple[str, int, int]
"""Region, context bucket, turn bucket."""


@dataclass(slots=True)
class Counts:
    """Hold sums over requests. Tokens are of successful ones that reported cached tokens."""

    requests: int = 0
    errors: int = 0
    cancelled: int = 0
    unreported: int = 0
    prompt: int = 0
    cached: int = 0
    attainable: int = 0
    attainable_global: int = 0
    selected: int = 0
    best: int = 0
    output: int = 0
    """Of all successful requests."""
    good: int = 0
    good_output: int = 0

    def add(self, record: Record, options: ResultOptions) -> None:
        """Count one request."""
        self.requests += 1
        if record.error is not None:
            self.errors += 1
            return
        self.cancelled += record.cancelled
        self.output += record.output_tokens or 0
        if not record.cancelled and is_good(record, options.slo):
            self.good += 1
            self.good_output += record.output_tokens or 0
        if record.best_tokens is not None and record.selected_tokens is not None:
            self.selected += record.selected_tokens
            self.best += record.best_tokens
        if record.cached_tokens is None:
            self.unreported += not record.cancelled  # its stream was cut before the report
            return
        self.prompt += record.prompt_tokens or 0
        self.cached += record.cached_tokens
        self.attainable += record.attainable_tokens
        everywhere = record.attainable_global_tokens
        self.attainable_global += record.attainable_tokens if everywhere is None else everywhere

    def merge(self, other: Counts) -> None:
        """Add another one."""
        for entry in fields(self):
            setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))

    def row(self) -> dict[str, Any]:
        """Give what a table shows."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "unreported": self.unreported,
            "prompt": self.prompt,
            "cached": self.cached,
            "attainable": self.attainable,
            "attainable_global": self.attainable_global,
            "output": self.output,
            "hit": _share(self.cached, self.prompt),
            "attainable_hit": _share(self.attainable, self.prompt),
            "ratio": _share(self.cached, self.attainable),
            "regret": _share(self.selected, self.best),
        }


@dataclass(slots=True)
class _Sums:
    """Hold the figures of some part of a run, every cell apart from the others."""

    histograms: dict[tuple[str, Cell], Histogram] = field(default_factory=dict)
    cells: dict[Cell, Counts] = field(default_factory=dict)
    replicas: dict[tuple[str, str], Counts] = field(default_factory=dict)

    def histogram(self, metric: str, cell: Cell) -> Histogram:
        found = self.histograms.get((metric, cell))
        if found is None:
            found = self.histograms[metric, cell] = Histogram()
        return found

    def merge(self, other: _Sums) -> None:
        for (metric, cell), histogram in other.histograms.items():
            self.histogram(metric, cell).merge(histogram)
        for cell, counts in other.cells.items():
            self.cells.setdefault(cell, Counts()).merge(counts)
        for replica, counts in other.replicas.items():
            self.replicas.setdefault(replica, Counts()).merge(counts)

    def plain(self) -> Delta:
        return {
            "histograms": [
                [metric, *cell, histogram.packed()]
                for (metric, cell), histogram in self.histograms.items()
            ],
            "cells": [[*cell, *astuple(counts)] for cell, counts in self.cells.items()],
            "replicas": [[*name, *astuple(counts)] for name, counts in self.replicas.items()],
        }

    @classmethod
    def of(cls, delta: Mapping[str, Any]) -> _Sums:
        return cls(
            histograms={
                (metric, (region, context, turn)): Histogram.unpacked(packed)
                for metric, region, context, turn, packed in delta.get("histograms", ())
            },
            cells={
                (region, context, turn): Counts(*numbers)
                for region, context, turn, *numbers in delta.get("cells", ())
            },
            replicas={
                (region, worker): Counts(*numbers)
                for region, worker, *numbers in delta.get("replicas", ())
            },
        )


class LiveFigures:
    """Hold the figures of one process, or of all that were merged into it."""

    def __init__(self, options: ResultOptions | None = None) -> None:
        self.options = options or ResultOptions()
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._told, self._fresh = _Sums(), _Sums()
        self._together: _Sums | None = None

    def add(self, record: Record, gaps_s: Sequence[float] = ()) -> None:
        """Count one request; latencies are of successful ones."""
        cell: Cell = (
            record.region,
            CONTEXT.index(record.predicted_prompt_tokens),
            TURN.index(record.turn),
        )
        fresh, self._together = self._fresh, None
        fresh.cells.setdefault(cell, Counts()).add(record, self.options)
        worker = record.prefill_worker or record.worker
        if worker is not None:
            replica = fresh.replicas.setdefault((record.region, worker), Counts())
            replica.add(record, self.options)
        if record.error is not None:
            return
        for metric, value_ms in latencies_ms(record):
            fresh.histogram(metric, cell).add(value_ms)
        if gaps_s:
            fresh.histogram("chunk_gap", cell).add_seconds(gaps_s)

    def delta(self) -> Delta:
        """Give what is new since the last time."""
        taken, self._fresh = self._fresh, _Sums()
        self._told.merge(taken)
        return taken.plain()

    def merge(self, delta: Mapping[str, Any]) -> None:
        """Add what another process gave; an empty dict is nothing."""
        self._fresh.merge(_Sums.of(delta))
        self._together = None

    def plain(self) -> Delta:
        """Give everything, told or not, in the form of a delta: to keep."""
        return self._all().plain()

    def latency_rows(self, cut: LatencyCut = "region") -> list[dict[str, Any]]:
        """Give the rows of a latency table, all regions together first where there are several."""
        sums = self._all()
        place = {"region": lambda _: ALL, "context": _context_name, "turn": _turn_name}[cut]
        rows = []
        for region in _regions(cell[0] for cell in sums.cells):
            for bucket in _buckets_of(cut):
                cells = [c for c in sums.cells if region in {ALL, c[0]} and place(c) == bucket]
                failures = sum(sums.cells[cell].errors for cell in cells)
                for metric in METRICS:
                    histogram = Histogram()
                    for cell in cells:
                        if (metric, cell) in sums.histograms:
                            histogram.merge(sums.histograms[metric, cell])
                    if histogram.counts:
                        row = {"metric": metric, "region": region, "bucket": bucket}
                        rows.append(row | _percentiles(histogram, failures))
        return rows

    def histogram(self, metric: str) -> Histogram:
        """Give one metric over everything."""
        found = Histogram()
        for (name, _), histogram in self._all().histograms.items():
            if name == metric:
                found.merge(histogram)
        return found

    def hit_rows(self, cut: HitCut = "region") -> list[dict[str, Any]]:
        """Give the rows of a table of cache hits."""
        sums = self._all()
        groups: dict[tuple[str, str], Counts] = {}
        if cut == "replica":
            groups = dict(sorted(sums.replicas.items()))
        else:
            for cell in sorted(sums.cells):
                bucket = _turn_name(cell) if cut == "turn" else ALL
                groups.setdefault((cell[0], bucket), Counts()).merge(sums.cells[cell])
        return [
            {"region": region, "bucket": bucket} | counts.row()
            for (region, bucket), counts in groups.items()
        ]

    def totals(self, elapsed_s: float) -> dict[str, Any]:
        """Give the figures of everything, with rates over the elapsed time."""
        counts = Counts()
        for part in self._all().cells.values():
            counts.merge(part)
        gpus = self.options.gpus
        output_per_s = _rate(counts.output, elapsed_s)
        totals = counts.row() | {
            "output_tokens_per_s": output_per_s,
            "output_tokens_per_s_gpu": output_per_s / sum(gpus.values()) if gpus else None,
            "goodput_share": None,
            "good_requests_per_s": None,
            "good_tokens_per_s": None,
        }
        if self.options.slo.given:
            totals["goodput_share"] = _share(counts.good, counts.requests - counts.cancelled)
            totals["good_requests_per_s"] = _rate(counts.good, elapsed_s)
            totals["good_tokens_per_s"] = _rate(counts.good_output, elapsed_s)
        return totals

    def _all(self) -> _Sums:
        """Give told and fresh together; one page asks for many tables of the same."""
        if self._together is None:
            self._together = _Sums()
            self._together.merge(self._told)
            self._together.merge(self._fresh)
        return self._together


def _percentiles(histogram: Histogram, failures: int) -> dict[str, Any]:
    return {
        "n": histogram.total,
        "failures": failures,
        "p50_ms": histogram.rank(0.50),
        "p95_ms": histogram.rank(0.95),
        "p99_ms": histogram.rank(0.99),
        "adjusted_p99_ms": histogram.rank(0.99, failures),
    }


def _regions(names: Iterable[str]) -> list[str]:
    found = sorted(set(names))
    return [ALL, *found] if len(found) > 1 else found


def _buckets_of(cut: LatencyCut) -> Sequence[str]:
    return {"region": (ALL,), "context": CONTEXT.names, "turn": TURN.names}[cut]


def _context_name(cell: Cell) -> str:
    return CONTEXT.names[cell[1]]


def _turn_name(cell: Cell) -> str:
    return TURN.names[cell[2]]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _rate(count: int, elapsed_s: float) -> float:
    return count / max(elapsed_s, 1e-9)
