"""Put record, figures and a load test together: what the report of a rollout says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fleet.rollout.figures import Figures
from fleet.rollout.measured import Measured, measured
from fleet.rollout.record import Entry, Started
from fleet.rollout.state import read_state
from fleet.rollout.story import StepStory, story
from fleet.rollout.waves import serving_at_least
from loadtest.results.saved_run import SavedRun
from loadtest.rollout.clients import Clients, clients_of

KIND, SCHEMA = "rollout", 1
GAP_S = 60.0  # nobody looked for so long: said, since a line over it would claim that all was well


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A region over a few seconds, as its frontends and its API server said."""

    from_s: float  # since the rollout began
    to_s: float
    serving: int
    updated: int
    requests: float | None
    error_rate: float | None
    hit: float | None
    ttft_mean_s: float | None
    ttft_p95_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region while the rollout went on."""

    name: str
    replicas: int
    floor: int  # that have to serve
    fewest: int | None  # that served at any look
    looks: tuple[Look, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutReport:
    """Everything that the page shows."""

    fleet: str
    number: int
    old: str
    new: str
    by: str
    status: str
    why: str
    started_at_s: float  # Unix time
    took_s: float
    expected_s: float | None  # as the plan estimated it; None in an old record
    steps: tuple[StepStory, ...]
    asked: tuple[tuple[float, str, str, str], ...]  # since the start, by, command, why
    measured: Measured | None  # what its own steps took, for the next estimate
    regions: tuple[Region, ...]
    clients: Clients | None
    missing: tuple[str, ...]


def build(
    fleet: str,
    number: int,
    entries: Sequence[Entry],
    figures: Sequence[Figures],
    run: SavedRun | None = None,
) -> RolloutReport:
    """Make the report; raise ConfigError for a record that no rollout can have written."""
    state, told = read_state(entries), story(entries)
    started, last_s = state.started, entries[-1].at_s
    regions = tuple(_regions(started, figures))
    return RolloutReport(
        fleet=fleet,
        number=number,
        old=started.old,
        new=started.new,
        by=started.by,
        status=state.status,
        why=state.why,
        started_at_s=started.at_s,
        took_s=last_s - started.at_s,
        expected_s=started.expected_s,
        steps=told.steps,
        asked=tuple((a.at_s - started.at_s, a.by, a.command, a.why) for a in told.asked),
        measured=measured(told.steps),
        regions=regions,
        clients=None if run is None else clients_of(run, started.at_s, last_s),
        missing=tuple(_missing(regions, last_s - started.at_s, given=run is not None)),
    )


def report_json(report: RolloutReport, version: str) -> dict[str, Any]:
    """Return the report as plain data; times in seconds since the rollout began."""
    return {"kind": KIND, "schema": SCHEMA, "k3fleet": version, **asdict(report)}


def _regions(started: Started, figures: Sequence[Figures]) -> Sequence[Region]:
    places = dict.fromkeys(name for step in started.steps for name in step.regions)
    own: Mapping[str, list[Figures]] = defaultdict(list)
    for one in figures:
        if one.region in places:
            own[one.region].append(one)
    return [
        Region(
            name=name,
            replicas=(all_of := max((one.replicas for one in own[name]), default=0)),
            floor=serving_at_least(all_of, started.floor.region),
            fewest=min((one.serving for one in own[name]), default=None),
            looks=tuple(_look(one, started.at_s) for one in own[name]),
        )
        for name in places
    ]


def _look(one: Figures, began_s: float) -> Look:
    return Look(
        from_s=one.from_s - began_s,
        to_s=one.to_s - began_s,
        serving=one.serving,
        updated=one.updated,
        requests=one.requests,
        error_rate=one.error_rate,
        hit=one.hit,
        ttft_mean_s=one.ttft_mean_s,
        ttft_p95_s=one.ttft_p95_s,
    )


def _missing(regions: Sequence[Region], took_s: float, *, given: bool) -> Sequence[str]:
    """Say what is not known, so that nobody takes it for well."""
    found = []
    for region in regions:
        if not region.looks:
            found.append(f"{region.name}: no figures were kept in this working copy.")
            continue
        if not any(look.requests is not None for look in region.looks):
            found.append(f"{region.name}: its frontends did not say what they counted.")
        elif not any(look.ttft_mean_s is not None for look in region.looks):
            found.append(f"{region.name}: no answer had a first token.")
        edges = [0.0, *(look.to_s for look in region.looks)]
        begins = [*(look.from_s for look in region.looks), took_s]
        gaps = [
            f"{end:.0f} to {begin:.0f} s"
            for end, begin in zip(edges, begins, strict=True)
            if begin - end > GAP_S
        ]
        if gaps:
            found.append(f"{region.name}: nobody looked from {', '.join(gaps)}.")
    if not given:
        found.append("What clients saw: give the folder of a load test with --load.")
    return found
