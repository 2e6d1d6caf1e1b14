"""Cut a fleet into waves and steps: which replicas are updated together, and in what order.

Pure. Two rules follow from what a replica holds: no step takes more of a rack or a region
than the floor allows, because those that stay carry the traffic of those that go; and the
first replica to run a release is one, because whatever is wrong with it is wrong with all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.errors import CapacityError
from fleet.packing import ReplicaSlot
from fleet.rollout.strategy import Floor, Strategy, WaveScope, WaveSpec

Unit = tuple[ReplicaSlot, ...]  # what must move together: one replica, or a group that splits jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Replicas that are away at the same time."""

    replicas: tuple[ReplicaSlot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Steps behind one another, then a soak."""

    spec: WaveSpec
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RackUnits:
    """A rack as the rollout sees it: what moves together, and how much of it may be away."""

    id: str
    region: str
    replicas: int
    todo: tuple[Unit, ...]


def units_of(slots: Sequence[ReplicaSlot], group: int) -> tuple[Unit, ...]:
    """Group a rack's slots: prefill and decode replicas exchange blocks, so they move together."""
    return tuple(tuple(slots[start : start + group]) for start in range(0, len(slots), group))


def cut_waves(racks: Sequence[RackUnits], strategy: Strategy) -> tuple[Wave, ...]:
    """Give the waves in order; those without anything to do are left out.

    Raises CapacityError where the floor lets no replica of a rack or a region go.
    """
    _check_floor(racks, strategy.floor)
    left = {rack.id: list(rack.todo) for rack in racks if rack.todo}
    waves = []
    for spec in strategy.waves:
        taken = _take(spec.scope, racks, left)
        if taken:
            waves.append(Wave(spec=spec, steps=_steps(taken, racks, strategy)))
    return tuple(waves)


def serving_at_least(replicas: int, floor: float) -> int:
    """Count the replicas that a floor keeps serving; never all of them gone by rounding."""
    return math.ceil(replicas * floor - 1e-9)  # 0.1 * 10 is more than 1 in binary


def _take(
    scope: WaveScope, racks: Sequence[RackUnits], left: dict[str, list[Unit]]
) -> dict[str, list[Unit]]:
    """Take a wave's units, by rack, out of those that are left."""
    if scope == "rest":
        taken, left_now = dict(left), {}
    else:
        ids = _wave_racks(scope, racks, left)
        count = 1 if scope == "canary" else None
        taken = {rack: left[rack][:count] for rack in ids}
        left_now = {rack: units[len(taken.get(rack, ())) :] for rack, units in left.items()}
    left.clear()
    left.update({rack: units for rack, units in left_now.items() if units})
    return taken


def _wave_racks(
    scope: WaveScope, racks: Sequence[RackUnits], left: dict[str, list[Unit]]
) -> list[str]:
    """Name the racks of a wave: the first of the fleet, or the first that is left per region."""
    with_work = [rack for rack in racks if rack.todo]
    if scope in ("canary", "canary-rack"):
        return [rack.id for rack in with_work[:1] if rack.id in left]
    first = {rack.region: rack.id for rack in reversed(with_work) if rack.id in left}
    return [rack.id for rack in with_work if first.get(rack.region) == rack.id]


def _steps(
    taken: dict[str, list[Unit]], racks: Sequence[RackUnits], strategy: Strategy
) -> tuple[Step, ...]:
    """Fill steps: some regions at a time, in each some racks, in each rack some units."""
    regions = list(dict.fromkeys(rack.region for rack in racks if rack.id in taken))
    steps: list[Step] = []
    at_once = strategy.at_once.regions
    for start in range(0, len(regions), at_once):
        side_by_side = [
            _region_steps(region, taken, racks, strategy)
            for region in regions[start : start + at_once]
        ]
        for index in range(max(map(len, side_by_side))):
            parts = [own[index] for own in side_by_side if index < len(own)]
            steps.append(Step(replicas=tuple(slot for part in parts for slot in part)))
    return tuple(steps)


def _region_steps(
    region: str, taken: dict[str, list[Unit]], racks: Sequence[RackUnits], strategy: Strategy
) -> list[tuple[ReplicaSlot, ...]]:
    """Take turns through a region's racks, so that no rack is weak for longer than it must be."""
    own = [rack for rack in racks if rack.region == region]
    queues = {rack.id: list(taken[rack.id]) for rack in own if rack.id in taken}
    floor = strategy.floor
    may_leave = {rack.id: _may_leave(rack.replicas, floor.rack) for rack in own}
    region_may_leave = _may_leave(sum(rack.replicas for rack in own), floor.region)
    steps = []
    while queues:
        step: list[ReplicaSlot] = []
        units = 0
        for rack, queue in queues.items():
            in_rack = 0
            rack_units = 0
            while (
                queue
                and rack_units < strategy.at_once.per_rack
                and units < strategy.at_once.per_region
                and in_rack + len(queue[0]) <= may_leave[rack]
                and len(step) + len(queue[0]) <= region_may_leave
            ):
                unit = queue.pop(0)
                step += unit
                in_rack += len(unit)
                rack_units += 1
                units += 1
        steps.append(tuple(step))
        queues = {rack: queue for rack, queue in queues.items() if queue}
    return steps


def _may_leave(replicas: int, floor: float) -> int:
    return replicas - serving_at_least(replicas, floor)


def _check_floor(racks: Sequence[RackUnits], floor: Floor) -> None:
    """Refuse a floor under which nothing can ever move; better now than at the canary."""
    for region in dict.fromkeys(rack.region for rack in racks if rack.todo):
        own = [rack for rack in racks if rack.region == region]
        largest = max(len(unit) for rack in own for unit in rack.todo)
        total = sum(rack.replicas for rack in own)
        _require(f"region {region}", "floor.region", total, floor.region, largest)
        for rack in own:
            if rack.todo:
                size = max(map(len, rack.todo))
                _require(f"rack {rack.id}", "floor.rack", rack.replicas, floor.rack, size)


def _require(where: str, key: str, replicas: int, floor: float, leaving: int) -> None:
    if _may_leave(replicas, floor) >= leaving:
        return
    possible = math.floor((replicas - leaving) / replicas * 100) / 100
    raise CapacityError(
        f"{where}: {key} {floor} keeps {serving_at_least(replicas, floor)} of {replicas} replicas "
        f"serving, and a step takes {leaving}. Lower {key} to {possible} or less, or add capacity."
    )
