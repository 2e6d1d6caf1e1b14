"""Summarise a run from its records: pure, so it can be repeated on saved files.

Definitions. Hit rates are token-weighted over successful requests whose server reported cached
tokens; a request without a report is counted as unreported, never as zero. TTFT, E2E and TPOT are
of successful requests; TPOT = (E2E - TTFT) ÷ (output tokens - 1). A gap is between two network
reads that carried tokens. Percentiles are nearest rank; those of gaps are at most 1 % high.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loadtest.breakdown import (
    Bucket,
    Hit,
    RegionSummary,
    ReplicaSummary,
    TimeSlice,
    by_context,
    by_turn,
    hit_of,
    region_summaries,
    replica_summaries,
    timeline,
)
from loadtest.histogram import coarse_columns
from loadtest.quantiles import Spread, histogram_rank, spread_ms
from loadtest.records import Generator, Record

GAP_PLOT_STEP = 1.1  # a bar of the report is at least so wide; percentiles use all buckets
LAG_LIMIT_MS = 100.0
CPU_LIMIT_SHARE = 0.8
MACHINE_LIMIT_SHARE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Hold what the requests do not say: which replicas there should be, and their workers."""

    block_size: int
    replicas: Mapping[str, Sequence[str]]
    worker_names: Mapping[str, str]
    registered: frozenset[str]
    """Replicas that the router knew at the end of the run."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """The job of each replica."""
    answered: frozenset[str] = frozenset()
    """Replicas that answered a chat of their own, beside the traffic."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Hold the share of expected replicas that registered, and that answered a request."""

    registered: float | None
    served: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleCheck:
    """Hold how far the oracle can be trusted.

    `over_prediction`: share of requests for which the server reported more cached tokens than the
    oracle held possible. `length_exact`: share whose prompt had exactly the predicted length.
    """

    over_prediction: float | None
    length_exact: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Hold the figures of a run; its JSON is the `load` object of the report."""

    window_s: float
    requests: int
    errors: int
    unfinished: int
    unfinished_share: float | None
    error_rate: float | None
    errors_by_class: Mapping[str, int]
    requests_per_s: float
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    hit: Hit
    ttft_ms: Spread
    e2e_ms: Spread
    tpot_ms: Spread
    gap_ms: GapSummary
    coverage: Coverage
    oracle: OracleCheck
    ttft_by_context: tuple[Bucket, ...]
    ttft_by_turn: tuple[Bucket, ...]
    regions: tuple[RegionSummary, ...]
    replicas: tuple[ReplicaSummary, ...]
    timeline: tuple[TimeSlice, ...]
    generator: GeneratorSummary


def summarise(records: Iterable[Record], generator: Generator, context: RunContext) -> Summary:
    """Compute all figures of a run."""
    every = list(records)
    good = [record for record in every if record.error is None]
    window_s = max(generator.duration_s, 1e-9)
    replicas = replica_summaries(
        good, context.replicas, context.worker_names, context.registered, context.roles
    )
    return Summary(
        window_s=generator.duration_s,
        requests=len(every),
        errors=len(every) - len(good),
        unfinished=generator.calls_unfinished,
        unfinished_share=_share(
            generator.calls_unfinished, generator.calls_unfinished + len(every)
        ),
        error_rate=_share(len(every) - len(good), len(every)),
        errors_by_class=dict(Counter(r.error for r in every if r.error is not None).most_common()),
        requests_per_s=round(len(every) / window_s, 3),
        prompt_tokens_per_s=round(sum(r.prompt_tokens or 0 for r in good) / window_s, 1),
        output_tokens_per_s=round(sum(r.output_tokens or 0 for r in good) / window_s, 1),
        hit=hit_of(good),
        ttft_ms=spread_ms(r.ttft_s for r in good if r.ttft_s is not None),
        e2e_ms=spread_ms(r.e2e_s for r in good),
        tpot_ms=spread_ms(_tpots_s(good)),
        gap_ms=_gaps(generator),
        coverage=_coverage(context, replicas),
        oracle=_oracle_check(good),
        ttft_by_context=by_context(good),
        ttft_by_turn=by_turn(good),
        regions=region_summaries(every, tuple(context.replicas)),
        replicas=replicas,
        timeline=timeline(every),
        generator=_generator(generator),
    )


def summary_json(summary: Summary) -> dict[str, Any]:
    """Give the `load` object of report.json."""
    return asdict(summary)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _tpots_s(records: Iterable[Record]) -> Iterable[float]:
    for record in records:
        if record.ttft_s is not None and record.output_tokens and record.output_tokens > 1:
            yield (record.e2e_s - record.ttft_s) / (record.output_tokens - 1)


def _gaps(generator: Generator) -> GapSummary:
    columns = generator.gap_histogram
    return GapSummary(
        p50=histogram_rank(columns, 0.50),
        p99=histogram_rank(columns, 0.99),
        histogram=coarse_columns(columns, GAP_PLOT_STEP),
    )


def _coverage(context: RunContext, replicas: Sequence[ReplicaSummary]) -> Coverage:
    expected = {name for names in context.replicas.values() for name in names}
    served = {replica.name for replica in replicas if replica.requests} | context.answered
    return Coverage(
        registered=_share(len(expected & context.registered), len(expected)),
        served=_share(len(expected & served), len(expected)),
    )


def _oracle_check(good: Sequence[Record]) -> OracleCheck:
    reported = [record for record in good if record.cached_tokens is not None]
    over = sum(1 for r in reported if (r.cached_tokens or 0) > r.attainable_tokens)
    exact = sum(1 for r in good if r.prompt_tokens == r.predicted_prompt_tokens)
    return OracleCheck(
        over_prediction=_share(over, len(reported)), length_exact=_share(exact, len(good))
    )


def _generator(generator: Generator) -> GeneratorSummary:
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
