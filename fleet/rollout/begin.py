"""Turn a plan into the first entry of a record, or say why it must not begin.

Pure. What is refused here is what no phase of a step can do yet; better at the prompt than with a
replica out of routing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.plan import make_plan
from fleet.release import Release
from fleet.rollout.mixing import mixing
from fleet.rollout.plan import RolloutPlan, plan_rollout
from fleet.rollout.record import Place, RecordedStep, Started
from fleet.rollout.strategy import Strategy
from fleet.schema import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What the replicas of a fleet are to run now, and how to read those releases."""

    assigned: Mapping[str, str]  # replica -> release id
    releases: Mapping[str, Release]  # by id
    sources: Mapping[str, str] = field(default_factory=dict)  # id -> preset or file
    serials: Mapping[str, int] = field(default_factory=dict)  # of the assignments, by region
    following: Mapping[str, str] = field(default_factory=dict)  # id, of a region's frontends


def plan_from(
    fleet: Fleet,
    running: Running,
    new: Release,
    strategy: Strategy,
    regions: Collection[str],
) -> RolloutPlan:
    """Plan the way to a release from what runs, which need not be the fleet file's."""
    known = [region.name for region in fleet.spec.regions]
    for name in regions:
        if name not in known:
            raise ConfigError(f"--region {name}: unknown region. {suggestion(name, known)}.")
    first = plan_rollout(fleet, new, strategy, regions=regions, assigned=running.assigned)
    moving = {name for step in first.steps for name in step.replicas}
    olds = {running.assigned[name] for name in moving} or _followed(running, new, regions or known)
    if len(olds) > 1:
        raise ConfigError(
            f"{fleet.path}: its replicas run several releases: {', '.join(sorted(olds))}. "
            "Bring them to one first, with --region for each part of the fleet."
        )
    old = next(iter(olds), fleet.release_id)
    release = fleet.release if old == fleet.release_id else running.releases[old]
    return plan_rollout(
        replace(fleet, release=release, release_id=old),
        new,
        strategy,
        regions=regions,
        assigned=running.assigned,
        following={name: running.releases[id_] for name, id_ in running.following.items()},
    )


def _followed(running: Running, new: Release, regions: Collection[str]) -> set[str]:
    """Name the releases that frontends follow where only they are left to change."""
    return {
        id_
        for region, id_ in running.following.items()
        if region in regions and mixing(running.releases[id_], new).region
    }


def require_possible(fleet: Fleet, plan: RolloutPlan, old: Release, new: Release) -> None:
    """Raise ConfigError for a rollout that k3fleet cannot drive yet."""
    where = f"{plan.old} -> {plan.new}"
    if fleet.spec.backend == "dgd":
        raise ConfigError(
            f"{fleet.path}: backend dgd: its replicas cannot be taken out of routing one by one "
            "yet. Use backend lws, or roll out by hand with `pulumi up`."
        )
    for release in (old, new):
        if release.disaggregation is not None:
            raise ConfigError(
                f"{where}: {release.name} splits prefill and decode, which is not driven yet. "
                "Use an aggregated release, or roll out by hand with `pulumi up`."
            )
        if not release.engine.registers:
            raise ConfigError(
                f"{where}: {release.name} does not register with frontends, so nothing says when "
                "its streams have ended. Roll out by hand with `pulumi up`."
            )


def recorded(
    fleet: Fleet,
    plan: RolloutPlan,
    strategy: Strategy,
    *,
    running: Running,
    by: str,
    at_s: float,
) -> Started:
    """Write a plan down with all that driving it needs."""
    places = {
        name: Place(replica=name, rack=rack.id, region=region.name)
        for region in make_plan(fleet).regions
        for rack in region.racks
        for name in rack.replica_names
    }
    last = {step.wave: step.number for step in plan.steps}
    return Started(
        at_s=at_s,
        by=by,
        old=plan.old,
        new=plan.new,
        steps=tuple(
            RecordedStep(
                wave=step.wave,
                soak_s=plan.soaks_s[step.wave] if last[step.wave] == step.number else 0.0,
                places=tuple(places[name] for name in step.replicas),
                shared=step.shared,
                expected_s=round(step.times.total_s, 1),
            )
            for step in plan.steps
        ),
        on_fail=strategy.on_fail,
        reruns=strategy.reruns,
        floor=strategy.floor,
        deadlines=strategy.deadlines,
        gates={wave.scope: wave.gates for wave in strategy.waves if wave.scope in last},
        releases={id_: running.sources[id_] for id_ in (plan.old, plan.new)},
        serials=dict(running.serials),
        webhook=strategy.webhook,
        expected_s=plan.total_s,
    )
