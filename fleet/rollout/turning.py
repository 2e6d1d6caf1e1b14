"""Order the way back of a rollout, or of a part of it. Pure.

What was under way comes first, since it serves nobody; then the latest, since it was watched for
the shortest time. What a region shares came last in it, and so goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fleet.rollout.record import Place, RecordedStep, Scope, Started

Part = tuple[str, str]  # kind and name of what a step changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Has:
    """Which release is, or may be, written down."""

    replicas: Mapping[str, str]
    shared: Mapping[str, str]  # by region: of its frontends and gateway


def way_back(
    started: Started,
    has: Has,
    under_way: tuple[RecordedStep, ...],
    scope: Scope,
    keep: int,
) -> tuple[RecordedStep, ...]:
    """Give the steps of the way back; the first `keep` steps stay as they are."""
    turning = [parts_of(step) for step in under_way]
    updated = [
        left
        for step in reversed(started.steps[keep:])
        if (left := _part(step, _with(step, has, started.new) - _names(step, turning)))
    ]
    way = [*under_way, *updated]
    inside = {area for step in way[:1] for area in _areas(step, scope).values()}
    return tuple(
        left
        for step in way
        if (left := _part(step, {n for n, area in _areas(step, scope).items() if area in inside}))
    )


def within(steps: Iterable[RecordedStep], parts: Collection[Part]) -> tuple[RecordedStep, ...]:
    """Give what steps have of some parts; what has none is left out."""
    return tuple(left for step in steps if (left := _part(step, _names(step, [parts]))))


def parts_of(step: RecordedStep) -> frozenset[Part]:
    """Name what a step changes, so that a region is no replica of the same name."""
    if step.shared:
        return frozenset({("shared", step.shared)})
    return frozenset(("replica", place.replica) for place in step.places)


def _names(step: RecordedStep, parts: Iterable[Collection[Part]]) -> set[str]:
    """Give the names of those parts that are of a step's kind."""
    kind = "shared" if step.shared else "replica"
    return {name for some in parts for own, name in some if own == kind}


def _part(step: RecordedStep, names: Collection[str]) -> RecordedStep | None:
    """Give the part of a step with these replicas, or, where it changes a region, with these."""
    if step.shared:
        return step if step.shared in names else None
    places = tuple(place for place in step.places if place.replica in names)
    return step.model_copy(update={"places": places}) if places else None


def _with(step: RecordedStep, has: Has, release: str) -> set[str]:
    found = has.shared if step.shared else has.replicas
    return {name for name, other in found.items() if other == release}


def _areas(step: RecordedStep, scope: Scope) -> Mapping[str, str]:
    """Say in which area of a scope each part of a step is; what is shared is in no rack."""
    if step.shared:
        areas = {"fleet": "", "region": step.shared}
        return {step.shared: areas.get(scope, f"shared by {step.shared}")}
    return {place.replica: _area(place, scope) for place in step.places}


def _area(place: Place, scope: Scope) -> str:
    match scope:
        case "replica":
            return place.replica
        case "rack":
            return place.rack
        case "region":
            return place.region
        case "fleet":
            return ""
