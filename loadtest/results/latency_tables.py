"""Tabulate every latency by region, by length of the prompt and by turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from loadtest.results.goodput import adjusted_ms
from loadtest.results.latencies import ttft_due_ms
from loadtest.results.live_figures import Delta, LatencyCut, LiveFigures
from loadtest.results.quantiles import Spread, spread_ms
from loadtest.results.records import Record

CHUNK_GAP = "chunk_gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """Hold one metric of one region and bucket; percentiles are at most 1 % high.

    `adjusted_p99_ms` takes failed requests as endless; None = the percentile falls among them.
    """

    metric: str
    region: str
    bucket: str
    n: int
    failures: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    adjusted_p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTable:
    """Hold the rows of one way to group requests."""

    by: str
    rows: tuple[LatencyRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Hold latencies beside TTFT, TPOT and E2E: exact percentiles, and the tables.

    `ttft_due_ms`: from when a request was due. Adjusted ones take failed requests as endless.
    """

    ttfo_ms: Spread
    ttft_due_ms: Spread
    ttft_adjusted_ms: Spread
    e2e_adjusted_ms: Spread
    tables: tuple[LatencyTable, ...]


def latency_of(records: Sequence[Record], kept: Sequence[Delta]) -> Latency:
    """Compute the figures of all requests."""
    good = [record for record in records if record.error is None]
    failures = len(records) - len(good)
    ttfts_ms = [record.ttft_s * 1000 for record in good if record.ttft_s is not None]
    e2es_ms = [record.e2e_s * 1000 for record in good if not record.cancelled]
    return Latency(
        ttfo_ms=spread_ms(r.ttfo_s for r in good if r.ttfo_s is not None),
        ttft_due_ms=spread_ms(v / 1000 for r in good if (v := ttft_due_ms(r)) is not None),
        ttft_adjusted_ms=adjusted_ms(ttfts_ms, failures),
        e2e_adjusted_ms=adjusted_ms(e2es_ms, failures),
        tables=latency_tables(records, kept),
    )


def latency_tables(records: Iterable[Record], kept: Sequence[Delta]) -> tuple[LatencyTable, ...]:
    """Make all tables: latencies from records, chunk gaps from what generators summed up.

    A record does not hold every gap, so gaps are always of the whole run.
    """
    figures, live = LiveFigures(), LiveFigures()
    for record in records:
        figures.add(record)
    for delta in kept:
        live.merge(delta)
    tables = []
    for cut in get_args(LatencyCut):
        rows = figures.latency_rows(cut)
        rows += [row for row in live.latency_rows(cut) if row["metric"] == CHUNK_GAP]
        tables.append(LatencyTable(by=cut, rows=tuple(LatencyRow(**row) for row in rows)))
    return tuple(tables)
