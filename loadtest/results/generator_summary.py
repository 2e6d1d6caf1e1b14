"""Summarise what the load generator says about itself, and whether it was the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtest.results.histogram import coarse_columns
from loadtest.results.quantiles import histogram_rank
from loadtest.results.records import Generator

GAP_PLOT_STEP = 1.1  # a bar of the report is at least so wide; percentiles use all buckets
LAG_LIMIT_MS = 100.0
CPU_LIMIT_SHARE = 0.8
MACHINE_LIMIT_SHARE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class GapSummary:
    """Hold the gaps between token arrivals."""

    p50: float | None
    p99: float | None
    histogram: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSummary:
    """Hold how well the generator itself did."""

    cpu_share: float
    machine_cpu_share: float
    lag_p50_ms: float
    lag_p99_ms: float
    users: int
    sessions_started: int
    limited_by_machine: bool


def gap_summary(generator: Generator) -> GapSummary:
    """Give percentiles of all chunk gaps, and bars for a plot."""
    columns = generator.gap_histogram
    return GapSummary(
        p50=histogram_rank(columns, 0.50),
        p99=histogram_rank(columns, 0.99),
        histogram=coarse_columns(columns, GAP_PLOT_STEP),
    )


def generator_summary(generator: Generator) -> GeneratorSummary:
    """Copy the generator's own figures and say whether the machine was the limit.

    It was, when the 99th percentile of the generator's lag is over 100 ms, or the generator took
    more than 0.8 of a core, or all cores together were 0.95 busy: then a slow answer may be ours.
    """
    limited = (
        generator.lag_p99_ms > LAG_LIMIT_MS
        or generator.cpu_share > CPU_LIMIT_SHARE
        or generator.machine_cpu_share >= MACHINE_LIMIT_SHARE
    )
    return GeneratorSummary(
        cpu_share=generator.cpu_share,
        machine_cpu_share=generator.machine_cpu_share,
        lag_p50_ms=generator.lag_p50_ms,
        lag_p99_ms=generator.lag_p99_ms,
        users=generator.users,
        sessions_started=generator.sessions_started,
        limited_by_machine=limited,
    )
