"""Order the way back of a rollout, or of a part of it. Pure.

What was under way comes first, since it serves nobody; then the latest, since it was watched for
the shortest time. What a region shares came last in it, and so goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fleet.rollout.record import Place, RecordedStep, Scope, Started


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
    updated = [
        left
        for step in reversed(started.steps[keep:])
        if step not in under_way and (left := _part(step, _with(step, has, started.new)))
    ]
    way = [*under_way, *updated]
    inside = {area for step in way[:1] for area in _areas(step, scope).values()}
    return tuple(
        left
        for step in way
        if (left := _part(step, {n for n, area in _areas(step, scope).items() if area in inside}))
    )


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
