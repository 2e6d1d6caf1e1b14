"""What each phase of a step decides, in a region that the test owns."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from rollout_site import (
    DRAIN_S,
    FIRST,
    RACK,
    REGION,
    REPLICAS,
    FakeRegion,
    Rig,
    change,
    leader,
    roll,
)

from fleet.rollout.counters import Counts
from fleet.rollout.record import Phase, Place, RecordedStep
from fleet.rollout.state import Do
from fleet.rollout.strategy import Floor
from infra.rollout.driver import Result
from infra.rollout.site import RegionsSite
from infra.rollout.waiting import Waiter
from infra.stack_events import Touched


def test_a_region_that_is_well_lets_a_replica_go(rig: Rig) -> None:
    """Without any wait."""
    assert rig.do("preflight") == Result("ok")
    assert rig.now_s == 0.0


def test_nothing_is_taken_away_while_another_replica_is_gone(rig: Rig) -> None:
    """It may come back within the deadline; else somebody has to look."""
    rig.region.unregistered = {REPLICAS[1]}
    assert rig.do("preflight") == Result(
        "inconclusive", f"{REGION}: other replicas do not serve: {REPLICAS[1]}"
    )
    assert rig.now_s == 20.0
    rig.at(25.0, rig.region.unregistered.clear)
    assert rig.do("preflight").outcome == "ok"


def test_the_way_back_needs_only_the_floor(rig: Rig) -> None:
    """A node may have died meanwhile, and the broken replica serves nobody anyway."""
    rig.region.unregistered = {REPLICAS[1]}
    assert "the floor is 2" in rig.do("preflight", back=True).why
    change(rig, routed=False)
    assert rig.do("preflight", back=True).outcome == "ok"


def test_a_running_update_is_waited_for(rig: Rig) -> None:
    """A killed driver leaves one behind; it ends by itself."""
    rig.region.stack.lock = "an update is running: process 7."
    rig.at(30.0, lambda: setattr(rig.region.stack, "lock", ""))
    assert rig.do("preflight").outcome == "ok"
    assert rig.now_s >= 30.0
    rig.region.stack.lock = "an update is running: process 8."
    assert "process 8" in rig.do("apply").why
    assert rig.region.stack.done == []


def test_another_fleets_cluster_is_not_touched(rig: Rig) -> None:
    """A kubeconfig is a path, and paths change."""
    rig.region.foreign = "kubeconfig: belongs to fleet other"
    assert rig.do("preflight").outcome == "inconclusive"


def test_draining_takes_out_of_routing_and_waits_for_streams(rig: Rig) -> None:
    """The pod stays: its streams go on."""
    rig.region.working = {FIRST: 3}
    rig.at(12.0, rig.region.working.clear)
    assert rig.do("drain") == Result("ok")
    assert rig.now_s == 12.0
    assert [pod.routed for pod in rig.region.leaders()] == [False, True, True]


def test_an_idle_replica_is_given_a_moment(rig: Rig) -> None:
    """A frontend may have chosen it just before it heard."""
    rig.at(1.0, lambda: rig.region.working.update({FIRST: 1}))
    rig.at(4.0, rig.region.working.clear)
    assert rig.do("drain") == Result("ok")
    assert rig.now_s == 4.0


def test_streams_that_outlive_the_budget_are_named(rig: Rig) -> None:
    """They are cut; nobody may be surprised by it."""
    rig.region.working = {FIRST: 3}
    result = rig.do("drain")
    assert result.outcome == "ok"
    assert "the drain budget is over" in result.why
    assert f"{FIRST} works on 3 requests" in result.why
    assert rig.now_s == DRAIN_S


def test_a_replica_that_stays_in_routing_is_not_deleted(rig: Rig) -> None:
    """Its sessions would be cut without warning."""
    rig.region.stuck = True
    assert "still in routing" in rig.do("drain").why


def test_a_replica_without_pods_has_nothing_to_drain(rig: Rig) -> None:
    """A node died; the way back must still work."""
    rig.region.pods = rig.region.pods[2:]
    assert rig.do("drain", back=True) == Result("ok")


def test_what_frontends_follow_is_told_with_the_first_replica(rig: Rig) -> None:
    """Before any replica of their set is another one."""
    rig.region.stack.telling = "mid-1"
    rig.do("assign")
    assert rig.region.stack.shared == "mid-1"


def test_the_assignment_is_told_before_it_is_written(rig: Rig) -> None:
    """A lab has to know what it mocks before a pod asks."""
    assert rig.do("assign").outcome == "ok"
    assert [release.name for release in rig.announced] == ["new"]
    assert rig.region.stack.assigned == {FIRST: rig.started.new}
    assert rig.region.stack.serial == 7


@pytest.mark.parametrize("back", [False, True])
def test_refresh_goes_into_the_look_and_the_update(rig: Rig, back: bool) -> None:
    """A look that trusts an old state would allow what the update then does."""
    assert rig.do("apply", back=back).outcome == "ok"
    how = "True force" if back else "False"  # the way back is stopped by nobody's edit
    assert rig.region.stack.done == [f"preview {how}", f"up {how}"]


def test_an_update_that_touches_others_is_not_applied(rig: Rig) -> None:
    """Somebody edited the fleet file, or a replica by hand."""
    name = f"LeaderWorkerSet/k3/{REPLICAS[1]}"
    rig.region.stack.touched = (Touched(operation="update", kind="LeaderWorkerSet", name=name),)
    result = rig.do("apply")
    assert result.outcome == "inconclusive"
    assert f"update LeaderWorkerSet {name}" in result.why
    assert rig.region.stack.done == ["preview False"]


def test_what_the_state_tells_is_not_asked_again(rig: Rig) -> None:
    """The engine is held to the step's own objects; it does not have to look first."""
    rig.region.stack.only = ("urn:1", "urn:2")
    assert rig.do("apply").outcome == "ok"
    assert rig.region.stack.done == ["up False only urn:1, urn:2"]


def test_on_the_way_back_the_engine_is_always_asked(rig: Rig) -> None:
    """The state may be wrong: that is what it refreshes for."""
    rig.region.stack.only = ("urn:1",)
    assert rig.do("apply", back=True).outcome == "ok"
    assert rig.region.stack.done == ["preview True force", "up True force"]


def test_what_is_live_is_compared_with_the_release(rig: Rig) -> None:
    """Pulumi says "unchanged" after a cancelled update while the other release runs."""
    stack = rig.region.stack
    rig.region.live = stack.rendered()  # of the old release
    rig.do("assign")
    result = rig.do("verify")
    assert result.outcome == "failed"
    assert f"release {rig.started.old}, not {rig.started.new}" in result.why
    rig.region.live = stack.rendered()
    assert rig.do("verify") == Result("ok")
    rig.region.live = {}
    assert f"{FIRST} is not there" in rig.do("verify").why


def test_ready_means_the_new_pods(rig: Rig) -> None:
    """Those of the old release are still Ready when the phase begins."""
    rig.at(50.0, lambda: roll(rig, rig.started.new))
    assert rig.do("ready") == Result("ok")
    assert rig.now_s == 50.0


def test_a_rollout_goes_past_a_parked_replica_and_waits_before_it(rig: Rig) -> None:
    """A lost node must not stop all others; but no pods would come of the replica itself."""
    other = REPLICAS[2]
    rig.started = rig.started.model_copy(update={"floor": Floor(rack=0.3, region=0.3)})
    rig.region.out_of_work = {other}
    change(rig, other, ready=False)
    assert rig.do("preflight") == Result("ok")
    rig.region.out_of_work = {FIRST}
    result = rig.do("preflight")
    assert result.outcome == "inconclusive"
    assert f"{FIRST} is parked, its rack lacks nodes" in result.why


def test_a_release_that_never_gets_ready_has_failed(rig: Rig) -> None:
    """At the deadline of the strategy, with what is missing."""
    roll(rig, rig.started.new)
    change(rig, ready=False)
    result = rig.do("ready")
    assert result.outcome == "failed"
    assert f"{FIRST}: its leader is not Ready, after the deadline `ready`" in result.why
    assert rig.now_s == 100.0


@pytest.mark.parametrize("phase", ["ready", "registered", "smoke", "gates", "soak"])
def test_a_wait_ends_when_somebody_asks_to_turn_back(rig: Rig, phase: Phase) -> None:
    """In the next look, not at a deadline two hours away; and it is no verdict."""
    change(rig, ready=phase == "soak", routed=True)
    rig.region.mute = {FIRST}
    rig.at(3.0, lambda: setattr(rig, "stopping", True))
    result = rig.do(phase, soak_s=1000.0)
    assert (result.outcome, rig.now_s) == ("inconclusive", 3.0)
    assert "asked to turn back" in result.why


def test_registered_puts_back_what_an_earlier_try_took_out(rig: Rig) -> None:
    """Resumed after a failed smoke, the same pods are still there."""
    change(rig, routed=False)
    assert rig.do("registered") == Result("ok")
    assert rig.region.leaders()[0].routed


def test_a_replica_that_the_frontends_do_not_get_has_failed(rig: Rig) -> None:
    """Ready is not enough."""
    rig.region.unregistered = {FIRST}
    result = rig.do("registered")
    assert (result.outcome, rig.now_s) == ("failed", 20.0)


def test_a_soak_is_as_long_as_it_says(rig: Rig) -> None:
    """And ends early only when the replica is lost."""
    assert rig.do("soak", soak_s=30.0) == Result("ok")
    assert rig.now_s == 30.0
    rig.at(35.0, lambda: change(rig, ready=False))
    result = rig.do("soak", soak_s=30.0)
    assert (result.outcome, rig.now_s) == ("failed", 35.0)


def test_a_drain_looks_at_the_floor_once_more(rig: Rig) -> None:
    """Its preflight may be days old: the driver died behind it, or the rollout was paused."""
    assert rig.do("preflight").outcome == "ok"
    change(rig, REPLICAS[1], ready=False)
    result = rig.do("drain")
    assert result.outcome == "inconclusive"
    assert "the floor is 2" in result.why
    assert rig.region.pods[leader(rig)].routed


@pytest.mark.parametrize(("phase", "out"), [("smoke", True), ("gates", True), ("soak", False)])
@pytest.mark.parametrize("away", [False, True])
def test_what_failed_in_one_region_serves_in_no_other(
    rig: Rig, phase: Phase, out: bool, away: bool
) -> None:
    """New pods are born into routing; unproved ones of a bad release would answer all night."""
    rig.region.mute.add(FIRST)
    rig.region.counted = Counts(requests=100, errors=0)
    if phase == "soak":
        change(rig, FIRST, routed=False)
    west = FakeRegion(rig.region.stack, list(rig.region.pods))
    other = REPLICAS[1]
    places = (
        Place(replica=FIRST, rack=RACK, region=REGION),
        Place(replica=other, rack=RACK, region="us-west"),
    )
    site = RegionsSite(
        started=rig.started,
        regions={REGION: rig.region, "us-west": west},  # type: ignore[dict-item]
        waiter=lambda stop: Waiter(clock=lambda: rig.now_s, pause=rig._pause, stop=stop),
        most_abreast=1,  # they have one clock
    )
    if phase == "gates":
        rig.at(1.0, lambda: setattr(rig.region, "counted", Counts(requests=300, errors=150)))
    west.away = away
    step = RecordedStep(wave="canary", soak_s=9.0, places=places)
    result = site.do(Do(step=step, phase=phase, target=rig.started.new, refresh=False), bool)
    assert result.outcome == "failed"
    west.away = False
    assert (other in west.serving()) is (away or not out)


def test_the_regions_of_a_step_soak_at_the_same_time(rig: Rig) -> None:
    """A pause of one ends with that of the other: in turn, the first would wait forever."""
    both = threading.Barrier(2, timeout=60.0)
    pauses: list[float] = []

    def waiter(stop: Callable[[], bool]) -> Waiter:
        own = [0.0]

        def pause(seconds: float) -> None:
            own[0] += seconds
            pauses.append(seconds)
            both.wait()

        return Waiter(clock=lambda: own[0], pause=pause, stop=stop)

    places = tuple(Place(replica=FIRST, rack=RACK, region=name) for name in (REGION, "us-west"))
    west = FakeRegion(rig.region.stack, list(rig.region.pods))
    site = RegionsSite(
        started=rig.started,
        regions={REGION: rig.region, "us-west": west},  # type: ignore[dict-item]
        waiter=waiter,
    )
    step = RecordedStep(wave="canary", soak_s=9.0, places=places)
    result = site.do(Do(step=step, phase="soak", target=rig.started.new, refresh=False), bool)
    assert result.outcome == "ok"
    assert sum(pauses) == 2 * 9.0
