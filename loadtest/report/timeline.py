"""Turn the slices of a run into one series per region.

Counts become rates by the width of a slice. A slice without a request is a
zero for throughput and a gap for latency and cache hit: nothing was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadtest.report.document import Event, LoadReport, Slice

DEFAULT_SLICE_S = 5.0  # what the summary uses; only needed when a run has a single slice
MAX_SLICES = 20_000  # a day of 5 s slices; beyond it a plot is a solid block
MARKED_EVENTS = ("lost", "recovered")

Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSeries:
    """What one region did over time; all tuples have the length of `t_s`, the slice middles."""

    region: str
    t_s: tuple[float, ...]
    requests_per_s: Values
    errors_per_s: Values
    prompt_tokens_per_s: Values
    output_tokens_per_s: Values
    ttft_p95_ms: Values
    achieved: Values
    attainable: Values
    ratio: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """From the loss of a replica to its recovery; `to_s` is None when it never came back."""

    region: str
    replica: str
    from_s: float
    to_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Events so close in time that they share one mark on a plot."""

    label: str
    t_s: float
    what: str
    text: str


def slice_width_s(slices: Iterable[Slice]) -> float:
    """Return the width of a slice: the smallest step between two starts."""
    starts = sorted({part.t_s for part in slices if part.t_s is not None})
    steps = [later - earlier for earlier, later in pairwise(starts)]
    return max(min(steps, default=DEFAULT_SLICE_S), 0.1)


def region_series(report: LoadReport) -> tuple[RegionSeries, ...]:
    """Return the series of every region that sent at least one request."""
    timed = [part for part in report.load.timeline if part.t_s is not None]
    if not timed:
        return ()
    width_s = slice_width_s(timed)
    first = min(_step(part, width_s) for part in timed)
    last = max(_step(part, width_s) for part in timed)
    whole = int(report.run_s / width_s + 1e-6)
    if whole > first:  # a slice that the run's end cuts off would look like an outage
        last = min(last, whole - 1)
    steps = range(first, min(last, first + MAX_SLICES) + 1)
    series = []
    for region in report.region_names:
        by_step = {_step(part, width_s): part for part in timed if part.region == region}
        if by_step:
            parts = [by_step.get(step, Slice()) for step in steps]
            middles = tuple((step + 0.5) * width_s for step in steps)
            series.append(_series(region, middles, parts, width_s))
    return tuple(series)


def _step(part: Slice, width_s: float) -> int:
    return int((part.t_s or 0.0) / width_s + 1e-6)


def _series(
    region: str, middles: tuple[float, ...], parts: Sequence[Slice], width_s: float
) -> RegionSeries:
    def rate(counts: Iterable[float | None]) -> Values:
        return tuple((count or 0.0) / width_s for count in counts)

    return RegionSeries(
        region=region,
        t_s=middles,
        requests_per_s=rate(part.requests for part in parts),
        errors_per_s=rate(part.errors for part in parts),
        prompt_tokens_per_s=rate(part.prompt_tokens for part in parts),
        output_tokens_per_s=rate(part.output_tokens for part in parts),
        ttft_p95_ms=tuple(part.ttft_p95_ms for part in parts),
        achieved=tuple(_share(part.cached_tokens, part.prompt_tokens) for part in parts),
        attainable=tuple(_share(part.attainable_tokens, part.prompt_tokens) for part in parts),
        ratio=tuple(_share(part.cached_tokens, part.attainable_tokens) for part in parts),
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def timed_events(report: LoadReport) -> tuple[Event, ...]:
    """Return the events in order of time; those without a time come last."""
    return tuple(sorted(report.events, key=lambda event: (event.t_s is None, event.t_s or 0.0)))


def outages(report: LoadReport) -> tuple[Outage, ...]:
    """Pair every loss of a replica with its next recovery."""
    found: list[Outage] = []
    open_since: dict[tuple[str, str], float] = {}
    for event in timed_events(report):
        key = (event.region, event.replica)
        if event.t_s is None:
            continue
        if event.what == "lost":
            open_since.setdefault(key, event.t_s)
        elif event.what in ("recovered", "ready") and key in open_since:
            start = open_since.pop(key)
            found.append(Outage(region=key[0], replica=key[1], from_s=start, to_s=event.t_s))
    found += [
        Outage(region=region, replica=replica, from_s=start, to_s=None)
        for (region, replica), start in open_since.items()
    ]
    return tuple(sorted(found, key=lambda outage: outage.from_s))


def numbered_events(report: LoadReport) -> tuple[tuple[int | None, Event], ...]:
    """Return all events; those marked on the plots carry the number of their mark."""
    numbered: list[tuple[int | None, Event]] = []
    count = 0
    for event in timed_events(report):
        marked = event.what in MARKED_EVENTS and event.t_s is not None
        count += marked
        numbered.append((count if marked else None, event))
    return tuple(numbered)


def markers(report: LoadReport, region: str | None = None) -> tuple[Marker, ...]:
    """Return the marks for a plot of one region, or of all, near ones joined."""
    marked = [
        (count, event, event.t_s)
        for count, event in numbered_events(report)
        if count is not None and event.t_s is not None and region in (None, event.region)
    ]
    if not marked:
        return ()
    apart_s = max(report.run_s, marked[-1][2]) * 0.02  # two marks fit side by side
    groups: list[list[tuple[int, Event, float]]] = []
    for item in marked:
        if (
            groups
            and item[2] - groups[-1][0][2] < apart_s
            and item[1].what == groups[-1][0][1].what
        ):
            groups[-1].append(item)
        else:
            groups.append([item])
    return tuple(_marker(group) for group in groups)


def _marker(group: list[tuple[int, Event, float]]) -> Marker:
    first, last = group[0], group[-1]
    label = str(first[0]) if first is last else f"{first[0]}-{last[0]}"
    names = ", ".join(event.replica for _, event, _ in group[:6])
    more = f" and {len(group) - 6} more" if len(group) > 6 else ""
    return Marker(
        label=label, t_s=first[2], what=first[1].what, text=f"{first[1].what}: {names}{more}"
    )
