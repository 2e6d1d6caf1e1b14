"""Break the records of a run down by region, replica, time, context and turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loadtest.results.buckets import CONTEXT, TURN, Buckets
from loadtest.results.quantiles import Spread, nearest_rank, spread_ms
from loadtest.results.records import Record

SLICE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Hold prefix-cache hit rates, token-weighted; None where nothing was reported."""

    achieved: float | None
    attainable: float | None
    ratio: float | None
    reported_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Hold TTFT in milliseconds of the requests of one bucket."""

    bucket: str
    n: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSummary:
    """Hold the figures of one region."""

    name: str
    requests: int
    errors: int
    hit: Hit
    ttft_ms: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSummary:
    """Hold what one replica did; a worker that belongs to no replica is named `worker <id>`.

    `share` is of the requests of its region. What nobody knows, because no answer says who gave
    it, is None.
    """

    name: str
    region: str
    role: str
    requests: int | None
    share: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    hit: float | None
    registered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """Hold what one region did in one slice of time, by the time of sending."""

    t_s: float
    region: str
    requests: int
    errors: int
    prompt_tokens: int
    cached_tokens: int
    attainable_tokens: int
    output_tokens: int
    ttft_p95_ms: float | None


@dataclass(slots=True)
class _Work:
    """Sums of one replica."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0

    def add(self, record: Record, *, prefilled: bool) -> None:
        self.requests += 1
        if prefilled:
            self.prompt_tokens += record.prompt_tokens or 0
            self.cached_tokens += record.cached_tokens or 0


def hit_of(good: Sequence[Record]) -> Hit:
    """Compute the hit rates of successful requests; a cancelled one could not report any."""
    good = [record for record in good if not record.cancelled]
    reported = [record for record in good if record.cached_tokens is not None]
    prompt = sum(record.prompt_tokens or 0 for record in reported)
    cached = sum(record.cached_tokens or 0 for record in reported)
    attainable = sum(record.attainable_tokens for record in reported)
    return Hit(
        achieved=_ratio(cached, prompt),
        attainable=_ratio(attainable, prompt),
        ratio=_ratio(cached, attainable),
        reported_share=_ratio(len(reported), len(good)),
    )


def by_context(good: Iterable[Record]) -> tuple[Bucket, ...]:
    """Group TTFT by prompt tokens."""
    return _buckets(good, CONTEXT, lambda record: record.predicted_prompt_tokens)


def by_turn(good: Iterable[Record]) -> tuple[Bucket, ...]:
    """Group TTFT by the number of the call in its session."""
    return _buckets(good, TURN, lambda record: record.turn)


def region_summaries(records: Iterable[Record], known: Sequence[str]) -> tuple[RegionSummary, ...]:
    """Summarise each region; one without a request is listed too."""
    groups: dict[str, list[Record]] = {name: [] for name in known}
    for record in records:
        groups.setdefault(record.region, []).append(record)
    return tuple(_region(name, group) for name, group in groups.items())


def replica_summaries(
    good: Sequence[Record],
    replicas: Mapping[str, Sequence[str]],
    worker_names: Mapping[str, str],
    registered: frozenset[str],
    roles: Mapping[str, str],
) -> tuple[ReplicaSummary, ...]:
    """Summarise each replica, expected ones first.

    Two replicas answer a request when prefill and decode are apart: both count it, and the one
    that computed the prompt has its tokens.
    """
    works: dict[tuple[str, str], _Work] = {
        (region, name): _Work() for region, names in replicas.items() for name in names
    }
    per_region: Counter[str] = Counter()
    for record in good:
        if record.worker is None:
            continue
        per_region[record.region] += 1
        for worker in {record.worker, record.prefill_worker} - {None}:
            name = worker_names.get(str(worker), f"worker {worker}")
            work = works.setdefault((record.region, name), _Work())
            work.add(record, prefilled=worker == (record.prefill_worker or record.worker))
    summaries = [
        ReplicaSummary(
            name=name,
            region=region,
            role=roles.get(name, ""),
            requests=work.requests,
            share=_ratio(work.requests, per_region[region]) or 0.0,
            prompt_tokens=work.prompt_tokens,
            cached_tokens=work.cached_tokens,
            hit=_ratio(work.cached_tokens, work.prompt_tokens),
            registered=name in registered,
        )
        for (region, name), work in works.items()
    ]
    nobody_named = bool(good) and not per_region
    return tuple(map(_unknown, summaries) if nobody_named else summaries)


def _unknown(replica: ReplicaSummary) -> ReplicaSummary:
    return replace(replica, requests=None, share=None, prompt_tokens=None, cached_tokens=None)


def timeline(records: Iterable[Record]) -> tuple[TimeSlice, ...]:
    """Cut the run into slices of 5 s per region; empty slices are left out."""
    groups: defaultdict[tuple[float, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.sent_s // SLICE_S * SLICE_S, record.region].append(record)
    return tuple(_slice(t_s, region, group) for (t_s, region), group in sorted(groups.items()))


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 3)


def _buckets(
    good: Iterable[Record], buckets: Buckets, size: Callable[[Record], int]
) -> tuple[Bucket, ...]:
    groups: defaultdict[int, list[float]] = defaultdict(list)
    for record in good:
        if record.ttft_s is not None:
            groups[buckets.index(size(record))].append(record.ttft_s * 1000)
    return tuple(
        Bucket(
            bucket=buckets.names[index],
            n=len(values),
            p50=_rounded(nearest_rank(values, 0.50)),
            p95=_rounded(nearest_rank(values, 0.95)),
        )
        for index, values in sorted(groups.items())
    )


def _region(name: str, group: Sequence[Record]) -> RegionSummary:
    good = [record for record in group if record.error is None]
    return RegionSummary(
        name=name,
        requests=len(group),
        errors=len(group) - len(good),
        hit=hit_of(good),
        ttft_ms=spread_ms(record.ttft_s for record in good if record.ttft_s is not None),
    )


def _slice(t_s: float, region: str, group: Sequence[Record]) -> TimeSlice:
    good = [record for record in group if record.error is None]
    counted = [record for record in good if record.prompt_tokens is not None]  # not hung up on
    ttfts_ms = [record.ttft_s * 1000 for record in good if record.ttft_s is not None]
    return TimeSlice(
        t_s=t_s,
        region=region,
        requests=len(group),
        errors=len(group) - len(good),
        prompt_tokens=sum(record.prompt_tokens or 0 for record in counted),
        cached_tokens=sum(record.cached_tokens or 0 for record in counted),
        attainable_tokens=sum(record.attainable_tokens for record in counted),
        output_tokens=sum(record.output_tokens or 0 for record in good),
        ttft_p95_ms=_rounded(nearest_rank(ttfts_ms, 0.95)),
    )
