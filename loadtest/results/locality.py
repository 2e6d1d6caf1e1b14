"""Say where cache hits were won and lost: by turn, router choice, replica and minute."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from loadtest.results.breakdown import Hit, hit_of
from loadtest.results.buckets import TURN
from loadtest.results.quantiles import nearest_rank
from loadtest.results.records import Record

REGRET_TARGET = 0.97
"""Selected ÷ best below this: the router gives away cache (facts of public K3 recipes)."""
IMBALANCE_LIMIT = 3.0
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHit:
    """Hold the hit rates of one turn bucket of one region, or of all."""

    region: str
    bucket: str
    requests: int
    hit: Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """Hold what the router chose against what it could have chosen, in tokens of our oracle.

    `regret` is selected ÷ best: 1.0 = always a replica with the longest prefix.
    """

    requests: int
    selected_tokens: int
    best_tokens: int
    regret: float | None
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """Hold how unevenly a region's replicas worked: the busiest against the mean; 1.0 = evenly."""

    region: str
    replicas: int
    requests: float | None
    prompt_tokens: float | None
    computed_tokens: float | None
    """Prompt tokens that were not cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imbalance:
    """Hold max ÷ mean over a region's replicas of what they had to prefill, minute by minute.

    Whole minutes only: a few requests after the last one would look like an imbalance.
    """

    region: str
    per_minute: tuple[float, ...]
    p50: float | None
    worst: float | None
    minutes_over_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHit:
    """Hold the hit rates of the prompts that one replica computed."""

    region: str
    replica: str
    hit: Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Locality:
    """Hold all figures of this module.

    `attainable_global`: the attainable hit rate if all regions shared one cache.
    """

    attainable_global: float | None
    by_turn: tuple[TurnHit, ...]
    by_replica: tuple[ReplicaHit, ...]
    router: Router
    skew: tuple[Skew, ...]
    imbalance: tuple[Imbalance, ...]


Names = Mapping[str, str]
"""Replica by worker id."""


def locality_of(
    good: Sequence[Record], replicas: Mapping[str, Sequence[str]], names: Names, run_s: float
) -> Locality:
    """Compute the figures of successful requests of a run of so many seconds."""
    return Locality(
        attainable_global=attainable_global(good),
        by_turn=hits_by_turn(good),
        by_replica=hits_by_replica(good, names),
        router=router_choice(good),
        skew=skews(good, replicas, names),
        imbalance=imbalances(good, replicas, names, run_s),
    )


def hits_by_turn(good: Sequence[Record]) -> tuple[TurnHit, ...]:
    """Group hit rates by turn bucket, all regions together and each region."""
    groups: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    several = len({record.region for record in good}) > 1
    for record in good:
        index = TURN.index(record.turn)
        groups[record.region, index].append(record)
        if several:
            groups["all", index].append(record)
    return tuple(
        TurnHit(region=region, bucket=TURN.names[index], requests=len(group), hit=hit_of(group))
        for (region, index), group in sorted(groups.items())
    )


def attainable_global(good: Iterable[Record]) -> float | None:
    """Give the attainable hit rate if all regions shared one cache."""
    reported = [record for record in good if record.cached_tokens is not None]
    prompt = sum(record.prompt_tokens or 0 for record in reported)
    tokens = sum(max(r.attainable_tokens, r.attainable_global_tokens or 0) for r in reported)
    return round(tokens / prompt, 6) if prompt else None


def hits_by_replica(good: Iterable[Record], names: Names) -> tuple[ReplicaHit, ...]:
    """Group hit rates by the replica that computed the prompt."""
    groups: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in good:
        replica = _prefilled_by(record, names)
        if replica is not None:
            groups[record.region, replica].append(record)
    return tuple(
        ReplicaHit(region=region, replica=replica, hit=hit_of(group))
        for (region, replica), group in sorted(groups.items())
    )


def router_choice(good: Iterable[Record]) -> Router:
    """Sum up selected and best prefixes of the requests that say who answered."""
    known = [r for r in good if r.selected_tokens is not None and r.best_tokens is not None]
    selected = sum(record.selected_tokens or 0 for record in known)
    best = sum(record.best_tokens or 0 for record in known)
    return Router(
        requests=len(known),
        selected_tokens=selected,
        best_tokens=best,
        regret=round(selected / best, 6) if best else None,
        target=REGRET_TARGET,
    )


def skews(
    good: Iterable[Record], replicas: Mapping[str, Sequence[str]], names: Names
) -> tuple[Skew, ...]:
    """Compare the replicas of each region, idle ones too."""
    requests, prompt, computed = _Loads(replicas), _Loads(replicas), _Loads(replicas)
    for record in good:
        replica = _prefilled_by(record, names)
        if replica is not None:
            requests.add(record.region, replica, 1)
            prompt.add(record.region, replica, record.prompt_tokens or 0)
            computed.add(record.region, replica, _computed(record))
    return tuple(
        Skew(
            region=region,
            replicas=len(requests.of[region]),
            requests=_uneven(requests.of[region]),
            prompt_tokens=_uneven(prompt.of[region]),
            computed_tokens=_uneven(computed.of[region]),
        )
        for region in requests.of
    )


def imbalances(
    good: Iterable[Record], replicas: Mapping[str, Sequence[str]], names: Names, run_s: float
) -> tuple[Imbalance, ...]:
    """Compare what replicas had to prefill in each minute; a minute without any is left out."""
    minutes: defaultdict[int, _Loads] = defaultdict(lambda: _Loads(replicas))
    for record in good:
        replica, minute = _prefilled_by(record, names), int(record.sent_s // _MINUTE_S)
        if replica is not None and (minute + 1) * _MINUTE_S <= run_s:
            minutes[minute].add(record.region, replica, _computed(record))
    found = []
    for region in replicas:
        loads = [minutes[minute].of[region] for minute in sorted(minutes)]
        values = [value for load in loads if (value := _uneven(load)) is not None]
        found.append(
            Imbalance(
                region=region,
                per_minute=tuple(values),
                p50=nearest_rank(values, 0.5),
                worst=max(values, default=None),
                minutes_over_limit=sum(value > IMBALANCE_LIMIT for value in values),
            )
        )
    return tuple(found)


class _Loads:
    """Count some load per replica of each region, known ones from the start."""

    def __init__(self, replicas: Mapping[str, Sequence[str]]) -> None:
        self.of: dict[str, Counter[str]] = {
            region: Counter(dict.fromkeys(names, 0)) for region, names in replicas.items()
        }

    def add(self, region: str, replica: str, load: int) -> None:
        self.of.setdefault(region, Counter())[replica] += load


def _prefilled_by(record: Record, names: Names) -> str | None:
    worker = record.prefill_worker or record.worker
    return None if worker is None else names.get(worker, f"worker {worker}")


def _computed(record: Record) -> int:
    """Give the prompt tokens that had to be computed; all of them where nothing is reported."""
    return (record.prompt_tokens or 0) - (record.cached_tokens or 0)


def _uneven(load: Mapping[str, int]) -> float | None:
    values = list(load.values())
    return round(max(values) / mean(values), 4) if any(values) else None
