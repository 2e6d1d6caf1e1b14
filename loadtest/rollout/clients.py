"""Put the requests of a load test on the time axis of a rollout."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from loadtest.results.quantiles import nearest_rank
from loadtest.results.records import Record
from loadtest.results.saved_run import SavedRun

SLICES = 400  # of a plot, at most: narrower than a pixel nobody sees them
LEAST_S = 5.0
P95 = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSlice:
    """What the clients of one region saw of requests that ended in a few seconds."""

    from_s: float  # since the rollout began; before it is negative
    to_s: float
    requests: int
    failed: int
    ttft_p95_s: float | None
    hit: float | None  # cached ÷ prompt tokens, as the answers said
    attainable: float | None  # what could have been cached at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """What the clients of a load test saw while a rollout went on."""

    folder: str
    requests: int
    failed: int  # of all requests of the load
    failed_meanwhile: int  # of those, the ones that ended while the rollout went on
    cut: int  # answers that had begun and broke off, meanwhile
    by_class: Mapping[str, int]
    regions: Mapping[str, tuple[ClientSlice, ...]] = field(default_factory=dict)


def clients_of(run: SavedRun, began_s: float, ended_s: float) -> Clients:
    """Read a load test; `began_s` and `ended_s` are of the rollout, in Unix time."""
    started_s = datetime.fromisoformat(run.generator.started_at).timestamp()
    moved = [(started_s + r.sent_s + r.e2e_s - began_s, r) for r in run.records]
    failed = [(at_s, r) for at_s, r in moved if r.error is not None]
    meanwhile = [r for at_s, r in failed if 0 <= at_s <= ended_s - began_s]
    return Clients(
        folder=str(run.path),
        requests=len(moved),
        failed=len(failed),
        failed_meanwhile=len(meanwhile),
        cut=sum(r.chunks > 0 for r in meanwhile),
        by_class=dict(Counter(str(r.error) for r in meanwhile).most_common()),
        regions=_regions(moved),
    )


def _regions(moved: Sequence[tuple[float, Record]]) -> dict[str, tuple[ClientSlice, ...]]:
    if not moved:
        return {}
    first = min(at_s for at_s, _ in moved)
    width_s = max(LEAST_S, (max(at_s for at_s, _ in moved) - first) / SLICES)
    found: dict[str, dict[int, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for at_s, record in moved:
        found[record.region][int(at_s // width_s)].append(record)
    return {
        region: tuple(_slice(slot, width_s, own) for slot, own in sorted(slots.items()))
        for region, slots in sorted(found.items())
    }


def _slice(slot: int, width_s: float, records: Iterable[Record]) -> ClientSlice:
    own = list(records)
    good = [r for r in own if r.error is None and r.cached_tokens is not None]
    prompt = sum(r.prompt_tokens or 0 for r in good)
    return ClientSlice(
        from_s=slot * width_s,
        to_s=(slot + 1) * width_s,
        requests=len(own),
        failed=sum(r.error is not None for r in own),
        ttft_p95_s=nearest_rank((r.ttft_s for r in own if r.ttft_s is not None), P95),
        hit=sum(r.cached_tokens or 0 for r in good) / prompt if prompt else None,
        attainable=sum(r.attainable_tokens for r in good) / prompt if prompt else None,
    )
