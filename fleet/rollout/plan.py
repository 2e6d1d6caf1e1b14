"""Plan a rollout: every step, what serves meanwhile, how long it takes and what it costs.

Pure: a fleet, what its replicas run and a release come in; nothing is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.packing import pack_rack
from fleet.plan import RackPlan, RegionPlan, make_plan
from fleet.release import Release, release_id
from fleet.release_set import release_set
from fleet.rollout.apart import apart_cost
from fleet.rollout.fronting import Fronting, to_change
from fleet.rollout.mixing import Mixing, mixing
from fleet.rollout.strategy import Assumed, Strategy, WaveSpec
from fleet.rollout.timing import (
    StartTimes,
    StepCost,
    StepTimes,
    start_times,
    step_cost,
    step_times,
)
from fleet.rollout.waves import RackUnits, Wave, cut_waves, units_of
from fleet.schema import suggestion
from fleet.traffic_shift import HEARD_S

MAX_LISTED = 5  # fields in a line that a person reads


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """One step with what it means for each region that it touches."""

    number: int  # from 1, over all waves
    wave: str
    starts_s: float  # after the start of the rollout
    times: StepTimes
    replicas: tuple[str, ...]  # none: it changes the frontends and the gateway of a region
    serving: Mapping[str, tuple[int, int]]  # region -> (while it runs, of all)
    costs: Mapping[str, StepCost]
    shared: str | None = None  # that region


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """The whole rollout."""

    old: str
    new: str
    steps: tuple[PlannedStep, ...]
    soaks_s: Mapping[str, float]
    times: StepTimes  # of one replica, behind the gates of the first wave
    mixing: Mixing
    sets: tuple[str, str]  # of the old and the new release; the same where they are side by side
    frontends: int  # of each set in each region
    unchanged: int  # replicas that run the new release already
    warnings: tuple[str, ...]

    @property
    def total_s(self) -> float:
        """All steps and the soaks of their waves."""
        return sum(step.times.total_s for step in self.steps) + sum(self.soaks_s.values())

    @property
    def one_by_one_s(self) -> float:
        """The same replicas behind one another, without any wave."""
        return sum(len(step.replicas) for step in self.steps) * self.times.total_s


def plan_rollout(
    fleet: Fleet,
    new: Release,
    strategy: Strategy,
    *,
    regions: Collection[str] = (),
    assigned: Mapping[str, str] | None = None,
    following: Mapping[str, Release] | None = None,
) -> RolloutPlan:
    """Plan the way from what replicas run (`assigned`, else the fleet's release) to `new`.

    `following`: the release that a region's frontends and gateway follow, else the fleet's.
    Raises ConfigError for an unknown region or a release of another size, and CapacityError
    where the floor lets nothing move.
    """
    _check(fleet, new, regions)
    target = release_id(new)
    wanted = [r for r in make_plan(fleet).regions if not regions or r.name in regions]
    racks = [
        _rack_units(region, rack, fleet, target, assigned or {})
        for region in wanted
        for rack in region.racks
    ]
    waves = cut_waves(racks, strategy)
    start = start_times(fleet.model, fleet.release, new, strategy.assumed)
    totals = {region.name: region.replicas for region in wanted}
    mix = mixing(fleet.release, new)
    todo = to_change(following or {}, fleet.release, new, totals)
    steps = _planned(waves, start, totals, strategy, Fronting.of(fleet.spec, todo))
    if mix.apart:
        steps = tuple(_kept_apart(steps, strategy.assumed))
    used = {step.wave for step in steps}
    return RolloutPlan(
        old=fleet.release_id,
        new=target,
        steps=steps,
        soaks_s={wave.scope: wave.soak_s for wave in strategy.waves if wave.scope in used},
        times=_single(waves, start, totals, strategy),
        mixing=mix,
        sets=(release_set(fleet.release), release_set(new)),
        frontends=fleet.spec.frontends.replicas,
        unchanged=sum(totals.values()) - sum(len(step.replicas) for step in steps),
        warnings=_warnings(mix, bool(steps)),
    )


def _check(fleet: Fleet, new: Release, regions: Collection[str]) -> None:
    known = [region.name for region in fleet.spec.regions]
    for name in regions:
        if name not in known:
            raise ConfigError(f"--region {name}: unknown region. {suggestion(name, known)}.")
    old = fleet.release
    if (old.nodes, old.roles) != (new.nodes, new.roles):
        raise ConfigError(
            f"release {new.name}: its replicas have another size or split of jobs than those of "
            f"{old.name}, so slots cannot be taken over one by one. Drain the racks and start "
            "them with the new release in the fleet file."
        )


def _rack_units(
    region: RegionPlan, rack: RackPlan, fleet: Fleet, target: str, running: Mapping[str, str]
) -> RackUnits:
    roles = fleet.release.roles
    slots = pack_rack(region.name, rack.id, rack.replicas, roles)
    todo = [
        unit
        for unit in units_of(slots, len(roles))
        if any(running.get(slot.name, fleet.release_id) != target for slot in unit)
    ]
    return RackUnits(id=rack.id, region=region.name, replicas=rack.replicas, todo=tuple(todo))


def _planned(
    waves: tuple[Wave, ...],
    start: StartTimes,
    totals: Mapping[str, int],
    strategy: Strategy,
    fronting: Fronting,
) -> tuple[PlannedStep, ...]:
    planned: list[PlannedStep] = []
    clock_s = 0.0

    def add(spec: WaveSpec, away: Mapping[str, int], **what: Any) -> None:
        nonlocal clock_s
        times = (
            step_times(away, totals, start, spec.gates, strategy.assumed)
            if away
            else fronting.times(totals[what["shared"]], spec.gates, strategy.assumed)
        )
        planned.append(
            PlannedStep(
                number=len(planned) + 1,
                wave=spec.scope,
                starts_s=clock_s,
                times=times,
                serving={name: (totals[name] - gone, totals[name]) for name, gone in away.items()},
                costs={
                    name: step_cost(gone, totals[name], strategy.assumed)
                    for name, gone in away.items()
                },
                **what,
            )
        )
        clock_s += times.total_s

    last = {s.region: step for wave in waves for step in wave.steps for s in step.replicas}
    for wave in waves:
        for step in wave.steps:
            away = Counter(slot.region for slot in step.replicas)
            add(wave.spec, away, replicas=tuple(slot.name for slot in step.replicas))
            for region in fronting.regions:
                if last.get(region) is step:
                    add(wave.spec, {}, replicas=(), shared=region)
        clock_s += wave.spec.soak_s
    for region in fronting.regions:  # whose replicas have the release already
        if region not in last:
            add(strategy.waves[-1], {}, replicas=(), shared=region)
    return tuple(planned)


def _kept_apart(steps: tuple[PlannedStep, ...], assumed: Assumed) -> Iterator[PlannedStep]:
    """Say of steps what they are between two sets: sessions that move, and gateways to wait for."""
    moving: Counter[str] = Counter()
    for step in steps:
        moving.update({name: total - left for name, (left, total) in step.serving.items()})
    late_s, moved = 0.0, Counter[str]()
    for step in steps:
        costs, waits = {}, 0
        for name, (left, total) in step.serving.items():
            done = total - moving[name] + moved[name]
            costs[name] = apart_cost(total - left, total, done, assumed)
            # Until all gateways know a set, before its first session and before its last replica.
            waits += (done == 0) + (done + total - left == total)
            moved[name] += total - left
        times = replace(step.times, register_s=step.times.register_s + waits * HEARD_S)
        yield replace(step, starts_s=step.starts_s + late_s, times=times, costs=costs)
        late_s += waits * HEARD_S


def _single(
    waves: tuple[Wave, ...], start: StartTimes, totals: Mapping[str, int], strategy: Strategy
) -> StepTimes:
    """Say how long one replica takes alone, in the smallest region: the slowest gates."""
    gates = waves[0].spec.gates if waves else strategy.waves[0].gates
    name = min(totals, key=lambda region: totals[region], default="")
    return step_times({name: 1}, {name: totals.get(name, 1)}, start, gates, strategy.assumed)


def _warnings(mix: Mixing, moves: bool) -> tuple[str, ...]:
    warnings = []
    if mix.apart and moves:
        warnings.append(
            f"the releases must not share a router ({listed(mix.apart)}): the new one gets "
            "frontends of its own, and every session changes over to them once, with a cold "
            "prefill."
        )
    if mix.region and moves:
        warnings.append(
            f"frontends or gateway change too ({listed(mix.region)}). They serve all replicas "
            "of a region, so they change once, behind its last replicas."
        )
    return tuple(warnings)


def listed(paths: tuple[str, ...]) -> str:
    """Name the first few of many fields; the JSON output has all."""
    more = len(paths) - MAX_LISTED
    return ", ".join(paths[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def rollout_json(plan: RolloutPlan) -> dict[str, object]:
    """Return the plan as plain data for JSON; durations in seconds."""
    return {
        "old": plan.old,
        "new": plan.new,
        "side_by_side": plan.mixing.side_by_side,
        "kept_apart_by": list(plan.mixing.apart),
        "sets": {"old": plan.sets[0], "new": plan.sets[1]},
        "frontends_per_set": plan.frontends,
        "region_changes": list(plan.mixing.region),
        "changes": [asdict(change) for change in plan.mixing.changes],
        "steps": [asdict(step) for step in plan.steps],
        "soaks_s": dict(plan.soaks_s),
        "step_s": {**asdict(plan.times), "total_s": plan.times.total_s},
        "total_s": plan.total_s,
        "one_by_one_s": plan.one_by_one_s,
        "unchanged": plan.unchanged,
        "warnings": list(plan.warnings),
    }
