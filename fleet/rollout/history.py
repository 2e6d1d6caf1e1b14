"""Sum a rollout's record up: what was brought out, when, by whom, and how it ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fleet.rollout.record import Entry, RecordedStep
from fleet.rollout.state import OVER, read_state


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRollout:
    """One rollout of a fleet."""

    number: int
    old: str  # release ids
    new: str
    status: str
    by: str
    started_at_s: float  # Unix time
    last_at_s: float  # of its last entry
    regions: tuple[str, ...]
    steps: int
    steps_done: int  # of whose replicas all have the new release now
    replicas: int
    updated: int  # replicas that have the new release now
    why: str

    @property
    def over(self) -> bool:
        """Whether nothing more will happen in it."""
        return self.status in OVER


def past_rollout(number: int, entries: Sequence[Entry]) -> PastRollout:
    """Read one record."""
    state = read_state(entries)
    started = state.started
    under_way = state.queue[:1] if state.touched else ()
    updated = {name for name, has in state.assigned.items() if has == started.new}
    updated -= {place.replica for step in under_way for place in step.places}
    shared = {region for region, has in state.shared.items() if has == started.new}
    shared -= {step.shared for step in under_way if step.shared}
    places = [place for step in started.steps for place in step.places]
    return PastRollout(
        number=number,
        old=started.old,
        new=started.new,
        status=state.status,
        by=started.by,
        started_at_s=started.at_s,
        last_at_s=entries[-1].at_s,
        regions=tuple(dict.fromkeys(name for step in started.steps for name in step.regions)),
        steps=len(started.steps),
        steps_done=sum(_done(step, updated, shared) for step in started.steps),
        replicas=len(places),
        updated=len(updated),
        why=state.why,
    )


def _done(step: RecordedStep, updated: Collection[str], shared: Collection[str]) -> bool:
    if step.shared:
        return step.shared in shared
    return all(place.replica in updated for place in step.places)
