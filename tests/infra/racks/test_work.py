"""Nodes leave work and come back: replicas keep serving, whoever is killed when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rack_world import NODES, SETS, KilledError, RackWorld, cluster_of

from fleet.errors import ApplyError, BusyError, CapacityError
from fleet.rollout.answers import Asked
from fleet.rollout.strategy import Deadlines, Floor
from infra.racks.work import RackWork
from infra.rollout.region import Questions, SiteRegion
from infra.rollout.waiting import Waiter

RACK = "r01"


@dataclass
class Stack:
    """Says how long streams of a release may take."""

    drain_s: float = 10.0

    def release(self, _identity: str) -> Stack:
        return self


@dataclass
class Site:
    """A world, and a time that passes when somebody waits."""

    world: RackWorld
    replicas: int
    floor: Floor = field(default_factory=lambda: Floor(rack=0.0, region=0.0))
    now_s: float = 0.0
    said: list[str] = field(default_factory=list)
    held: Callable[[str], None] = lambda _region: None

    def work(self) -> RackWork:
        region = SiteRegion(
            cluster=cluster_of(self.world),
            stack=Stack(),  # type: ignore[arg-type]
            racks={f"{RACK}-{slot}": RACK for slot in range(self.replicas)},
            questions=Questions(
                ask=lambda _at, _worker: True, probe=lambda _at, _worker, _release: Asked()
            ),
        )
        return RackWork(
            region=region,
            rack=RACK,
            gpus=4,
            nodes_per_replica=2,
            floor=self.floor,
            deadlines=Deadlines(ready=60.0, registered=10.0),
            waiter=Waiter(clock=lambda: self.now_s, pause=self._pause, stop=lambda: False),
            by="me now",
            say=self.said.append,
            require_held=self.held,
        )

    def _pause(self, seconds: float) -> None:
        self.now_s += seconds
        self.world.settle()


def site(nodes: int = 6, replicas: int = 3, **more: object) -> Site:
    world = RackWorld()
    world.fill(RACK, nodes, replicas)
    assert len(world.serving) == replicas
    return Site(world=world, replicas=replicas, **more)  # type: ignore[arg-type]


def test_a_full_rack_parks_the_replica_of_a_drained_node() -> None:
    """Five nodes hold two replicas; the two others are not touched."""
    rig = site()
    rig.work().drain(["r01-n02"])
    assert rig.world.serving == {"r01-0", "r01-2"}
    assert rig.world.get(SETS, "r01-1")["spec"]["replicas"] == 0
    assert not any("r01-0 " in line or "r01-2 " in line for line in rig.world.log)


def test_a_replica_moves_where_there_is_room() -> None:
    """Two spare nodes: it loses its cache, the region loses nothing."""
    rig = site(nodes=8)
    rig.work().drain(["r01-n00"])
    assert rig.world.serving == {"r01-0", "r01-1", "r01-2"}
    assert rig.world.where("r01-0") <= {"r01-n01", "r01-n06", "r01-n07"}


def test_one_is_parked_and_the_other_takes_both_free_nodes() -> None:
    """Without the parking each would get one of two free nodes, and neither would ever serve."""
    rig = site()
    rig.work().drain(["r01-n00", "r01-n02"])
    assert rig.world.serving == {"r01-0", "r01-2"}
    assert rig.world.where("r01-0") == {"r01-n01", "r01-n03"}


def test_it_is_out_of_routing_before_it_goes() -> None:
    """A turn that is cut off costs the session's whole context."""
    rig = site()
    rig.work().drain(["r01-n02"])
    names = [line.split()[0] for line in rig.world.log]
    assert names == ["r01-n02", "r01-1-0", "r01-1"]
    assert '"k3fleet.io/routed": null' in rig.world.log[1]


@pytest.mark.parametrize("gone", [False, True])
def test_a_lost_node_costs_one_replica_and_no_other_is_touched(gone: bool) -> None:
    """Its pods name a node that ends nothing any more: they are removed without its word."""
    rig = site()
    rig.world.fall_silent("r01-n02", gone=gone)
    assert rig.world.serving == {"r01-0", "r01-2"}
    assert rig.work().heal() == ()
    assert rig.world.get(SETS, "r01-1")["spec"]["replicas"] == 0
    assert rig.world.serving == {"r01-0", "r01-2"}
    assert rig.world.where("r01-1") == set()
    assert not any("r01-0" in line or "r01-2" in line for line in rig.world.log)
    assert "remove r01-1-0" in rig.world.log


def test_a_replica_of_a_lost_node_moves_where_there_is_room() -> None:
    """Both of its pods: the one whose node lives is evicted with it."""
    rig = site(nodes=8)
    rig.world.fall_silent("r01-n00")
    assert rig.work().heal() == ()
    assert rig.world.serving == {"r01-0", "r01-1", "r01-2"}
    assert "r01-n00" not in rig.world.where("r01-0")


def test_what_was_parked_comes_back_once_there_is_room() -> None:
    """A node was repaired and uncordoned by hand, which says nothing about replicas."""
    rig = site()
    rig.world.fall_silent("r01-n02")
    rig.work().heal()
    rig.world.silent.clear()
    node = rig.world.get(NODES, "r01-n02")
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    node["spec"].pop("unschedulable")
    assert rig.work().heal() == ("r01-1",)
    assert rig.world.serving == {"r01-0", "r01-1", "r01-2"}


def test_a_pod_that_its_node_still_ends_is_never_removed() -> None:
    """It writes streams to their end, and holds GPUs until then."""
    rig = site()
    rig.work().drain(["r01-n02"])
    assert not any(line.startswith("remove") for line in rig.world.log)


def test_uncordon_brings_back_what_was_parked() -> None:
    """The cordon of the node goes with it."""
    rig = site()
    rig.work().drain(["r01-n02"])
    assert rig.work().uncordon(["r01-n02"]) == ("r01-1",)
    rig.work().wait_serving(["r01-1"])
    assert rig.world.serving == {"r01-0", "r01-1", "r01-2"}
    assert "unschedulable" not in rig.world.get(NODES, "r01-n02")["spec"]


def test_a_cordon_of_somebody_else_keeps_his_name() -> None:
    """A health agent's cordon must not look like ours, which `uncordon` takes back."""
    rig = site()
    rig.world.get(NODES, "r01-n02")["spec"]["unschedulable"] = True
    rig.work().cordon(["r01-n02", "r01-n03"])
    marked = [
        item["metadata"]["name"]
        for item in rig.world.all(NODES)
        if "k3fleet.io/cordoned-by" in item["metadata"].get("annotations", {})
    ]
    assert marked == ["r01-n03"]


def test_a_floor_is_kept_before_anything_is_touched() -> None:
    """Two of three replicas would be gone."""
    rig = site(floor=Floor(rack=0.5, region=0.0))
    work = rig.work()
    with pytest.raises(CapacityError, match=r"rack r01: .*the floor is 2"):
        work.require_possible(work.plan(["r01-n00", "r01-n02", "r01-n04"]))
    assert rig.world.log == []


def test_a_disruption_budget_is_waited_for() -> None:
    """Somebody else drains in the same rack."""
    rig = site(nodes=8)
    rig.world.budget_says_no = 3
    rig.work().drain(["r01-n00"])
    assert rig.world.serving == {"r01-0", "r01-1", "r01-2"}


def test_nothing_is_touched_once_the_region_is_lost() -> None:
    """Another operator has taken the lease over."""
    rig = site()
    with pytest.raises(BusyError):
        Site(world=rig.world, replicas=3, held=_lost).work().drain(["r01-n02"])
    assert rig.world.log == []


def _lost(_region: str) -> None:
    raise BusyError("taken over")


def test_a_replica_that_does_not_come_back_ends_the_drain() -> None:
    """The next one must not leave as well; the message says what to type."""
    rig = site(nodes=8)

    def no_room() -> None:
        """Somebody cordons the spare nodes once the replica has left routing."""
        for name in ("r01-n06", "r01-n07") if "routed" in rig.world.log[-1] else ():
            rig.world.get(NODES, name)["spec"]["unschedulable"] = True

    rig.world.after_write = no_room
    with pytest.raises(ApplyError, match=r"r01-0 does not serve.*same command"):
        rig.work().drain(["r01-n00", "r01-n02"])
    assert rig.world.serving >= {"r01-1", "r01-2"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.integers(4, 8),
    drained=st.sets(st.integers(0, 7), min_size=1, max_size=3),
    deaths=st.lists(st.integers(0, 12), max_size=3),
)
def test_a_drain_goes_on_wherever_it_was_killed(
    nodes: int, drained: set[int], deaths: list[int]
) -> None:
    """Any write may be the last; the same command again ends as if nothing had happened."""
    rig = site(nodes=nodes, replicas=nodes // 2)
    names = [f"r01-n{number:02d}" for number in sorted(drained) if number < nodes]
    for death in deaths:
        rig.world.steps, rig.world.dies_at = 0, death
        try:
            rig.work().drain(names)
        except KilledError:
            rig.world.settle()
    rig.world.dies_at = None
    rig.work().drain(names)
    assert len(rig.world.serving) == (nodes - len(names)) // 2
    for name in rig.world.serving:
        assert not rig.world.where(name) & set(names)
    back = rig.work().uncordon(names)
    rig.work().wait_serving(back)
    assert len(rig.world.serving) == nodes // 2


@given(deaths=st.lists(st.integers(0, 8), min_size=1, max_size=2))
@settings(max_examples=25, deadline=None)
def test_uncordon_undoes_a_drain_that_was_killed(deaths: list[int]) -> None:
    """An operator who changes his mind needs one command."""
    rig = site()
    for death in deaths:
        rig.world.steps, rig.world.dies_at = 0, death
        try:
            rig.work().drain(["r01-n00", "r01-n02"])
        except KilledError:
            rig.world.settle()
    rig.world.dies_at = None
    rig.work().wait_serving(rig.work().uncordon(["r01-n00", "r01-n02"]))
    assert rig.world.serving == {"r01-0", "r01-1", "r01-2"}
