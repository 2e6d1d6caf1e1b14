"""Bring a working copy to what is deployed: its records, and what its stacks are told to run.

Several working copies may drive one fleet, one after the other. The record in the clusters says
which serial the assignment of a region has; a copy whose stack file has another one is behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleet.rollout.state import OVER, State
from infra.rollout.rollouts import Rollouts
from infra.rollout.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What was done to one region's stack file."""

    region: str
    before: int | None  # serial; None: there was no file
    after: int


def up_to_date(rollouts: Rollouts) -> Rollouts:
    """Give the rollouts with stack files that are as new as the records, synced if need be."""
    latest = rollouts.latest()
    wanted = latest.state().serials if latest else {}
    for name in rollouts.regions:
        stack = rollouts.stack(name, {})
        if not stack.exists or stack.serial() != wanted.get(name, stack.serial()):
            sync(rollouts)
            return replace(rollouts)  # what was read before is read anew
    return rollouts


def sync(rollouts: Rollouts) -> list[Synced]:
    """Take over the records of the clusters, and what is deployed in each region."""
    latest = rollouts.latest()
    state = latest.state() if latest else None
    sources = rollouts.sources()
    done = []
    for name in rollouts.regions:
        with rollouts.venue.claimed(name):
            done.append(_sync(rollouts.stack(name, sources), state))
    return done


def _sync(stack: Stack, state: State | None) -> Synced:
    before = stack.serial() if stack.exists else None
    if before is None:
        stack.create()
    region = stack.runner.settings.region
    serial = state.serials.get(region, 0) if state else 0
    deployed = stack.deployed()
    if state is not None and state.status not in OVER and region in state.shared:
        deployed = replace(deployed, shared=state.shared[region])
    stack.sync(deployed, _under_way(state, region), serial=serial)
    return Synced(region=region, before=before, after=stack.serial())


def _under_way(state: State | None, region: str) -> Mapping[str, str]:
    """Give what an open rollout has written down for a region, applied or not."""
    if state is None or state.status in OVER:
        return {}
    places = [place for step in state.started.steps for place in step.places]
    return {p.replica: state.assigned[p.replica] for p in places if p.region == region}
