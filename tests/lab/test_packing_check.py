"""The packing is judged by what the API server shows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_builders import rack_nodes, replica_pods

from fleet.plan import RackPlan, RegionPlan
from lab.packing_check import check_region
from lab.pods import PodView

RACK = "r01"


def plan(replicas: int, healthy: int = 18) -> RegionPlan:
    rack = RackPlan(
        id=RACK,
        nodes=18,
        healthy_nodes=healthy,
        replicas=replicas,
        replica_names=tuple(f"{RACK}-{slot}" for slot in range(replicas)),
        roles=("aggregated",) * replicas,
    )
    return RegionPlan(name="here", cloud="existing", racks=(rack,))


def packed(replicas: int) -> list[PodView]:
    return [
        pod
        for slot in range(replicas)
        for pod in replica_pods(
            f"{RACK}-{slot}", f"{RACK}-n{2 * slot:02d}", f"{RACK}-n{2 * slot + 1:02d}"
        )
    ]


def test_nine_replicas_on_eighteen_nodes_are_right():
    """The full rack is the packing that everything aims at."""
    packing = check_region(plan(9), rack_nodes(RACK, 18), packed(9))
    assert packing.problems == ()
    assert packing.racks[0].replicas == 9
    assert all(tray.replica for tray in packing.racks[0].nodes)


@given(st.randoms(use_true_random=False))
def test_any_permutation_of_nodes_within_the_rack_is_right(rng: random.Random):
    """Which tray a pod gets is the scheduler's business, as long as none is used twice."""
    names = [f"{RACK}-n{index:02d}" for index in range(18)]
    rng.shuffle(names)
    pods = [
        pod
        for slot in range(9)
        for pod in replica_pods(f"{RACK}-{slot}", names[2 * slot], names[2 * slot + 1])
    ]
    assert check_region(plan(9), rack_nodes(RACK, 18), pods).ok


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        (replica_pods("r01-0", "r01-n00", "r02-n00"), "r01-0: pods r01-0-0, r01-0-0-1 are in"),
        (replica_pods("r01-0", "r01-n00", "r01-n00"), "both on node r01-n00"),
        (replica_pods("r01-0", "r01-n00", None), "pod r01-0-0-1 has no node"),
        (replica_pods("r01-0", "r01-n00", "r01-n01")[:1], "1 pods instead of 2 (r01-0-0)"),
        ([], "0 pods instead of 2 (none)"),
        (
            [
                *replica_pods("r01-0", "r01-n00", "r01-n01"),
                *replica_pods("r01-7", "r01-n02", "r01-n03"),
            ],
            "replica r01-7 is not in the plan",
        ),
    ],
)
def test_each_fault_names_the_pods(pods: list[PodView], said: str):
    """An operator has to find the pod, not only to hear that something is wrong."""
    nodes = rack_nodes(RACK, 18) + rack_nodes("r02", 18)
    packing = check_region(plan(1), nodes, pods)
    assert any(said in problem for problem in packing.problems), packing.problems


def test_a_node_used_by_two_replicas_is_named():
    """Four GPUs cannot serve two replicas."""
    pods = replica_pods("r01-0", "r01-n00", "r01-n01") + replica_pods("r01-1", "r01-n01", "r01-n02")
    packing = check_region(plan(2), rack_nodes(RACK, 18), pods)
    assert packing.problems == ("node r01-n01: used by pods r01-0-0-1, r01-1-0",)


def test_a_pod_on_an_unhealthy_node_is_a_fault():
    """The scheduler must not be able to place anything on a cordoned node."""
    pods = replica_pods("r01-0", "r01-n16", "r01-n17")
    packing = check_region(plan(1, healthy=17), rack_nodes(RACK, 17), pods)
    assert packing.problems == ("r01: pods were placed on unhealthy nodes r01-n17",)


def test_a_missing_node_is_a_fault():
    """A rack whose label is on 17 nodes is not the rack that was planned."""
    packing = check_region(plan(1), rack_nodes(RACK, 17, 17), packed(1))
    assert packing.problems == ("r01: 17 nodes carry its label instead of 18",)
