"""Say how the hit rate of fresh sessions climbs from step to step, from their outlines alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from loadtest.cache.attainable import HitCount, Reusable
from loadtest.traffic.outline import Call
from loadtest.traffic.profile_schema import Profile
from loadtest.traffic.scale import Scale, Seeds
from loadtest.traffic.session_outline import session_outline


class StepHit(NamedTuple):
    """Hold one prompt and what of it was, or could be, a hit; in tokens."""

    step: int
    """Number of the call within its session, from 1."""
    prompt: int
    hit: int


def planned_hits(
    profile: Profile, scale: Scale, seeds: Seeds, number: int
) -> Iterator[tuple[Call, Reusable]]:
    """Yield the calls of one session, each with what of its prompt can be reused."""
    hits = HitCount()
    for call in session_outline(profile, scale, seeds.lengths("session", number)):
        yield call, hits.add(call)


def cumulative_hit(steps: Iterable[StepHit], last: int) -> float | None:
    """Give the token-weighted hit rate of the first `last` steps; None when there are none."""
    first = [step for step in steps if step.step <= last]
    prompt = sum(step.prompt for step in first)
    return sum(step.hit for step in first) / prompt if prompt else None
