"""A rollout between two sets that are kept apart: when their shares of the sessions move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rollout_site import DRAIN_S, FIRST, REPLICAS, Rig, change, leader, pods_of

from fleet.release import release_id
from fleet.release_set import release_set
from infra.gateway import cluster_of
from infra.stack_events import Touched

HEARD_S = 30.0


@pytest.fixture
def apart(rig: Rig) -> Rig:
    """Give a region of three replicas, on its way to a release of another set."""
    new = rig.region.stack.fleet.release.model_copy(update={"name": "new", "block_size": 2048})
    rig.region.stack.new = (release_id(new), new)
    rig.started = rig.started.model_copy(update={"new": release_id(new)})
    rig.region.heard_s = HEARD_S
    rig.region.pods = [replace(pod, set=old_set(rig)) for pod in rig.region.pods]
    rig.region.know(cluster_of(old_set(rig)))
    return rig


def old_set(rig: Rig) -> str:
    return release_set(rig.region.stack.fleet.release)


def new_set(rig: Rig) -> str:
    return release_set(rig.region.stack.new[1])


def runs_new(rig: Rig, *replicas: str) -> None:
    """Let replicas be of the new release, as the cluster has them after their steps."""
    identity, _ = rig.region.stack.new
    for name in replicas:
        index = leader(rig, name)
        rig.region.pods[index : index + 2] = [
            replace(pod, set=new_set(rig)) for pod in pods_of(name, identity)
        ]
        rig.region.stack.assigned[name] = identity
    rig.region.know(cluster_of(old_set(rig)), cluster_of(new_set(rig)))


def shares(rig: Rig) -> tuple[int, int]:
    """Give the parts of the old and the new set."""
    found = rig.region.traffic.shares()
    return found.get(cluster_of(old_set(rig)), 0), found.get(cluster_of(new_set(rig)), 0)


def test_the_first_step_moves_no_session_before_its_replica_has_answered(apart: Rig) -> None:
    """The new set is known to have none, before gateways hear of its frontends."""
    assert apart.do("drain").outcome == "ok"
    assert apart.now_s < HEARD_S
    item = apart.region.objects.get("ConfigMap", "gateway-traffic")
    assert item is not None
    assert item["data"][f"shares.{cluster_of(new_set(apart))}"] == "0"
    runs_new(apart, FIRST)
    assert apart.do("smoke").outcome == "ok"
    assert shares(apart) == (1000, 0)
    before = apart.now_s
    assert apart.do("restore").outcome == "ok"
    assert apart.now_s - before >= HEARD_S  # all gateways know the new frontends by then
    assert shares(apart) == (667, 333)
    again = apart.now_s
    assert apart.do("restore").outcome == "ok"
    assert (shares(apart), apart.now_s - again < HEARD_S) == ((667, 333), True)


def test_the_last_replica_of_a_set_is_drained_once_no_gateway_sends_there(apart: Rig) -> None:
    """A redone phase waits again: who began it may have died before all had heard."""
    runs_new(apart, *REPLICAS[1:])
    apart.region.traffic.share({cluster_of(old_set(apart)): 333, cluster_of(new_set(apart)): 667})
    routed = []
    apart.at(HEARD_S - 1, lambda: routed.append(apart.region.pods[leader(apart)].routed))
    assert apart.do("drain").outcome == "ok"
    assert (routed, shares(apart)) == ([True], (0, 1000))
    assert not apart.region.pods[leader(apart)].routed
    change(apart, routed=True)
    start = apart.now_s
    assert apart.do("drain").outcome == "ok"
    assert apart.now_s - start >= HEARD_S
    start = apart.now_s
    assert apart.do("drain").outcome == "ok"  # it is out of routing: nobody can be sent there
    assert apart.now_s - start < HEARD_S


def test_the_way_back_takes_the_sessions_first(apart: Rig) -> None:
    """From the only replica of the new set, which goes on answering until all have heard."""
    runs_new(apart, FIRST)
    apart.region.traffic.share({cluster_of(old_set(apart)): 667, cluster_of(new_set(apart)): 333})
    assert apart.do("drain", back=True).outcome == "ok"
    assert shares(apart) == (1000, 0)
    assert HEARD_S <= apart.now_s < HEARD_S + DRAIN_S


def test_a_replica_that_fails_loses_its_sessions_at_once(apart: Rig) -> None:
    """People may take hours to decide; the other set has its caches."""
    runs_new(apart, FIRST)
    apart.region.traffic.share({cluster_of(old_set(apart)): 667, cluster_of(new_set(apart)): 333})
    apart.region.unregistered.add(FIRST)
    assert apart.do("restore").outcome == "failed"
    assert shares(apart) == (1000, 0)
    assert not apart.region.pods[leader(apart)].routed


def test_sessions_that_are_half_elsewhere_hold_it_before_anything_is_touched(apart: Rig) -> None:
    """Each share that moves would send some there and others back; the way back goes all the
    same."""
    apart.region.traffic.send(300)
    result = apart.do("preflight")
    assert (result.outcome, "traffic restore" in result.why) == ("inconclusive", True)
    assert apart.do("preflight", back=True).outcome == "ok"
    apart.region.traffic.send(1000)
    assert apart.do("preflight").outcome == "ok"


def test_ready_means_that_the_new_sets_frontends_are_too(apart: Rig) -> None:
    """They are made in the same update, and have images to fetch."""
    runs_new(apart, FIRST)
    apart.region.frontends_wanting = "0 of 2 frontends are Ready"
    apart.at(10.0, lambda: setattr(apart.region, "frontends_wanting", ""))
    assert apart.do("ready").outcome == "ok"
    assert apart.now_s >= 10.0


def frontends(set_: str, how: str) -> tuple[Touched, ...]:
    kinds = ("Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler")
    return tuple(
        Touched(kind=kind, name=f"k3/frontend-{set_}", operation=how)  # type: ignore[arg-type]
        for kind in kinds
    )


def test_a_sets_frontends_come_with_its_first_replica_and_go_with_the_last(apart: Rig) -> None:
    """And with no other: a frontend that somebody removed by hand is not made anew in silence."""
    old, new = old_set(apart), new_set(apart)
    apart.region.stack.assigned[FIRST] = apart.started.new
    apart.region.stack.touched = frontends(new, "create")
    assert apart.do("apply").outcome == "ok"
    apart.region.stack.touched = frontends(old, "delete")
    assert f"delete Deployment k3/frontend-{old}" in apart.do("apply").why
    for name in REPLICAS[1:]:
        apart.region.stack.assigned[name] = apart.started.new
    assert apart.do("apply").outcome == "ok"
    apart.region.stack.touched = frontends(new, "create")
    assert f"create Deployment k3/frontend-{new}" in apart.do("apply").why
    apart.region.stack.touched = frontends(new, "update")
    assert apart.do("apply").outcome == "inconclusive"


def test_releases_of_one_set_move_no_share(rig: Rig) -> None:
    """Their gateways are not even asked."""
    assert rig.do("drain").outcome == "ok"
    assert rig.do("restore").outcome == "ok"
    assert rig.region.objects.items == {}
