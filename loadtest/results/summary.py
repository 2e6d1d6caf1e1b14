"""Summarise a run from its records: pure, so it can be repeated on saved files.

Definitions, whose sources are in docs/metrics.md. Hit rates are token-weighted over successful
requests whose server reported cached tokens; a request without a report is counted as unreported,
never as zero. TTFT, E2E and TPOT are of successful requests; TPOT = (E2E - TTFT) ÷ (output
tokens - 1). A gap is between two network reads that carried tokens. Percentiles are nearest rank;
those of gaps are at most 1 % high.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loadtest.results.breakdown import (
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
from loadtest.results.generator_summary import (
    GapSummary,
    GeneratorSummary,
    gap_summary,
    generator_summary,
)
from loadtest.results.goodput import Goodput, PerGpu, goodput, per_gpu
from loadtest.results.latencies import tpot_ms
from loadtest.results.latency_tables import Latency, latency_of
from loadtest.results.live_figures import Delta
from loadtest.results.locality import Locality, locality_of
from loadtest.results.offered import Offered, offered_load
from loadtest.results.quantiles import Spread, spread_ms
from loadtest.results.records import Generator, Record
from loadtest.results.result_options import ResultOptions
from loadtest.results.server_truth import Page, ServerTruth, cross_check
from loadtest.results.session_figures import Sessions, session_figures
from loadtest.results.steady import Steady, steady_figures, steady_window


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
    results: ResultOptions = field(default_factory=ResultOptions)
    pages: tuple[Page, ...] = ()
    """What servers counted."""
    figures: tuple[Delta, ...] = ()
    """What generators summed up while they ran."""
    workers: int = 1
    lost_workers: tuple[str, ...] = ()


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
class RunHealth:
    """Hold whether all was measured: processes that sent, those killed, records without room.

    `findings` is what a reader of the figures has to know first.
    """

    workers: int
    lost_workers: int
    unwritten: int
    findings: tuple[str, ...]


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
    latency: Latency
    locality: Locality
    goodput: Goodput
    per_gpu: PerGpu
    sessions: Sessions
    steady: Steady
    server: ServerTruth
    cancelled: int
    offered: Offered
    run: RunHealth


def summarise(records: Iterable[Record], generator: Generator, context: RunContext) -> Summary:
    """Compute all figures of a run: of the steady window when it had stages, else of all of it."""
    every = list(records)
    window = steady_window(generator)
    counted = [record for record in every if window.holds(record)] if window.staged else every
    good = [record for record in counted if record.error is None]
    ended = [record for record in good if not record.cancelled]
    failures = len(counted) - len(good)
    window_s = max(window.length_s if window.staged else generator.duration_s, 1e-9)
    replicas = replica_summaries(
        good, context.replicas, context.worker_names, context.registered, context.roles
    )
    steady = steady_figures(every, window)
    server = cross_check(context.pages, every)
    return Summary(
        window_s=round(window_s, 3),
        requests=len(counted),
        errors=failures,
        unfinished=generator.calls_unfinished,
        unfinished_share=_share(
            generator.calls_unfinished, generator.calls_unfinished + len(every)
        ),
        error_rate=_share(failures, len(counted)),
        errors_by_class=dict(
            Counter(r.error for r in counted if r.error is not None).most_common()
        ),
        requests_per_s=round(len(counted) / window_s, 3),
        prompt_tokens_per_s=round(sum(r.prompt_tokens or 0 for r in good) / window_s, 1),
        output_tokens_per_s=round(sum(r.output_tokens or 0 for r in good) / window_s, 1),
        hit=hit_of(good),
        ttft_ms=spread_ms(r.ttft_s for r in good if r.ttft_s is not None),
        e2e_ms=spread_ms(r.e2e_s for r in ended),
        tpot_ms=spread_ms(value / 1000 for r in ended if (value := tpot_ms(r)) is not None),
        gap_ms=gap_summary(generator),
        coverage=_coverage(context, replicas),
        oracle=_oracle_check(ended),
        ttft_by_context=by_context(good),
        ttft_by_turn=by_turn(good),
        regions=region_summaries(counted, tuple(context.replicas)),
        replicas=replicas,
        timeline=timeline(every),
        generator=generator_summary(generator),
        latency=latency_of(counted, context.figures),
        locality=locality_of(good, context.replicas, context.worker_names, generator.duration_s),
        goodput=goodput(counted, context.results, window_s),
        per_gpu=per_gpu(good, context.results, window_s),
        sessions=session_figures(every),
        steady=steady,
        server=server,
        cancelled=len(good) - len(ended),
        offered=offered_load(counted),
        run=RunHealth(
            workers=context.workers,
            lost_workers=len(context.lost_workers),
            unwritten=generator.unwritten,
            findings=tuple(_findings(generator, context, steady, server)),
        ),
    )


def summary_json(summary: Summary) -> dict[str, Any]:
    """Give the `load` object of report.json."""
    return asdict(summary)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _findings(
    generator: Generator, context: RunContext, steady: Steady, server: ServerTruth
) -> Iterator[str]:
    """Say what a reader of the figures has to know first."""
    for name in context.lost_workers:
        yield f"{name}: killed before its end; what it had written is in the figures"
    if generator.unwritten:
        yield f"{generator.unwritten} requests are in no figure: the disk was full"
    if steady.saturation.over_saturated:
        yield (
            "the load was more than the fleet carries: requests in flight and TTFT both kept "
            "rising, so the figures depend on how long the run was"
        )
    yield from server.findings


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
