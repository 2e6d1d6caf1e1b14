"""Which replicas leave together, and in what order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import CapacityError
from fleet.packing import ReplicaSlot, pack_rack
from fleet.rollout.strategy import Floor, Pace, Strategy, WaveSpec
from fleet.rollout.waves import RackUnits, Wave, cut_waves, serving_at_least, units_of

ROLES = {1: ("aggregated",), 3: ("prefill", "prefill", "decode")}


def rack(name: str, region: str, replicas: int, *, done: int = 0, group: int = 1) -> RackUnits:
    slots = pack_rack(region, name, replicas, ROLES[group])  # type: ignore[arg-type]
    units = units_of(slots, group)
    return RackUnits(id=name, region=region, replicas=replicas, todo=units[done:])


def names(waves: tuple[Wave, ...]) -> dict[str, list[list[str]]]:
    return {
        wave.spec.scope: [[slot.name for slot in step.replicas] for step in wave.steps]
        for wave in waves
    }


def test_the_order_is_canary_its_rack_one_rack_per_region_and_the_rest() -> None:
    """Each wave risks more than the one before it, and only after that one was judged."""
    racks = [rack("a1", "a", 3), rack("a2", "a", 3), rack("b1", "b", 3), rack("b2", "b", 3)]
    strategy = Strategy(floor=Floor(rack=0.6, region=0.8), at_once=Pace(per_region=1))
    assert names(cut_waves(racks, strategy)) == {
        "canary": [["a1-0"]],
        "canary-rack": [["a1-1"], ["a1-2"]],
        "rack-per-region": [["a2-0"], ["a2-1"], ["a2-2"], ["b1-0"], ["b1-1"], ["b1-2"]],
        "rest": [["b2-0"], ["b2-1"], ["b2-2"]],
    }


def test_replicas_that_run_the_release_already_are_left_alone() -> None:
    """A rollout that was stopped goes on where it was, and costs nothing twice."""
    racks = [rack("a1", "a", 3, done=2), rack("b1", "b", 3, done=3)]
    waves = cut_waves(racks, Strategy(floor=Floor(rack=0.5, region=0.5)))
    assert names(waves) == {"canary": [["a1-2"]]}


def test_regions_at_once_go_side_by_side() -> None:
    """Two regions at a time halve the hours, and double what is at risk: the team chooses."""
    racks = [rack("a1", "a", 2), rack("b1", "b", 2)]
    strategy = Strategy(
        waves=(WaveSpec(scope="rest"),), at_once=Pace(regions=2), floor=Floor(rack=0.5, region=0.5)
    )
    assert names(cut_waves(racks, strategy)) == {"rest": [["a1-0", "b1-0"], ["a1-1", "b1-1"]]}


def test_prefill_and_decode_of_a_group_move_together() -> None:
    """They hand blocks to each other, and two releases need not agree on what those mean."""
    strategy = Strategy(floor=Floor(rack=0.6, region=0.6))
    [canary, *_] = cut_waves([rack("a1", "a", 9, group=3)], strategy)
    assert [slot.role for slot in canary.steps[0].replicas] == ["prefill", "prefill", "decode"]


@pytest.mark.parametrize(
    ("floor", "message"),
    [
        (
            Floor(rack=0.75, region=0.1),
            (
                "rack a1: floor.rack 0.75 keeps 2 of 2 replicas serving, and a step takes 1. "
                "Lower floor.rack to 0.5 or less, or add capacity."
            ),
        ),
        (
            Floor(rack=0.1, region=0.85),
            (
                "region a: floor.region 0.85 keeps 2 of 2 replicas serving, and a step takes 1. "
                "Lower floor.region to 0.5 or less, or add capacity."
            ),
        ),
    ],
)
def test_a_floor_that_lets_nothing_go_is_refused(floor: Floor, message: str) -> None:
    """Else a rollout would wait for ever, with the canary drained."""
    with pytest.raises(CapacityError) as caught:
        cut_waves([rack("a1", "a", 2)], Strategy(floor=floor))
    assert str(caught.value) == message


def test_a_share_that_is_a_whole_number_of_replicas_is_not_rounded_up() -> None:
    """0.7 of 10 is 7.000000000000001 with floats off by a bit: that would keep 8."""
    assert [serving_at_least(10, share / 10) for share in range(11)] == list(range(11))


sizes = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=3)
shares = st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.85])


@given(
    regions=sizes,
    pace=st.builds(
        Pace, per_rack=st.integers(1, 3), per_region=st.integers(1, 4), regions=st.integers(1, 3)
    ),
    floor=st.builds(Floor, rack=shares, region=shares),
    done=st.integers(0, 9),
)
def test_any_fleet_is_updated_once_and_never_below_its_floor(
    regions: list[list[int]], pace: Pace, floor: Floor, done: int
) -> None:
    """What a strategy promises has to hold for fleets that nobody drew on a board."""
    racks = [
        rack(f"r{number}-{index}", f"r{number}", count, done=min(done, count))
        for number, counts in enumerate(regions)
        for index, count in enumerate(counts)
    ]
    try:
        waves = cut_waves(racks, Strategy(at_once=pace, floor=floor))
    except CapacityError:
        return
    steps = [step.replicas for wave in waves for step in wave.steps]
    wanted = [slot.name for found in racks for unit in found.todo for slot in unit]
    assert sorted(slot.name for step in steps for slot in step) == sorted(wanted)
    assert all(steps)
    for step in steps:
        _within(step, racks, pace, floor)


def _within(
    step: tuple[ReplicaSlot, ...], racks: list[RackUnits], pace: Pace, floor: Floor
) -> None:
    by_rack = Counter(slot.rack for slot in step)
    by_region = Counter(slot.region for slot in step)
    assert len(by_region) <= pace.regions
    for found in racks:
        away = by_rack[found.id]
        assert away <= pace.per_rack
        assert not away or found.replicas - away >= serving_at_least(found.replicas, floor.rack)
    for region, away in by_region.items():
        total = sum(found.replicas for found in racks if found.region == region)
        assert away <= pace.per_region
        assert total - away >= serving_at_least(total, floor.region)
