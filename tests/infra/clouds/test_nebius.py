"""What is asked of Nebius."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from cloud_fleets import Outcome, Run


@pytest.fixture(scope="module")
def made(run: Run) -> Outcome:
    """Run the page's example."""
    return run("nebius")


@pytest.fixture(scope="module")
def rack(made: Outcome) -> dict[str, Any]:
    """Give the inputs of the rack's node group."""
    return made.named("eun1-r01")["Mk8sV1NodeGroup"].inputs


def test_a_rack_is_one_nvlink_instance_group(made: Outcome, rack: dict[str, Any]) -> None:
    """Nodes outside of such a group share no NVLink domain."""
    group = made.named("eun1-r01")["ComputeV1NvlInstanceGroup"].inputs
    assert (group["type"], group["size"]) == ("GB300", 18)
    assert rack["template"]["nvlink"] == {"nvlInstanceGroupId": "eun1-r01-id"}
    assert rack["fixedNodeCount"] == 18


def test_racks_are_in_one_infiniband_fabric(made: Outcome, rack: dict[str, Any]) -> None:
    """KV transfer between racks, and weights from a neighbour, go over it."""
    fabric = made.named("launch-eu-north")["ComputeV1GpuCluster"].inputs
    assert fabric["infinibandFabric"] == "fabric-8"
    assert rack["template"]["gpuCluster"] == {"id": "launch-eu-north-id"}


def test_nodes_come_from_the_reservation_or_not_at_all(rack: dict[str, Any]) -> None:
    """The default falls back to pay-as-you-go, at another price and in another rack."""
    assert rack["template"]["reservationPolicy"] == {
        "policy": "STRICT",
        "reservationIds": ["capacityblockgroup-e00abc"],
    }


def test_an_update_never_asks_for_a_nineteenth_node(rack: dict[str, Any]) -> None:
    """A rack has none, and the update would wait for it for ever."""
    strategy = rack["strategy"]
    assert (strategy["maxSurge"], strategy["maxUnavailable"]) == ({"count": 0}, {"count": 1})


def test_the_device_plugin_stays(rack: dict[str, Any]) -> None:
    """Engines ask for nvidia.com/gpu, which Nebius's own DRA would take away."""
    assert rack["template"]["gpuSettings"] == {"driversPreset": "cuda13.0", "dra": False}


def test_nodes_mask_imex_and_let_the_operator_in(rack: dict[str, Any]) -> None:
    """The DRA driver cannot start IMEX beside the host's."""
    text = rack["template"]["cloudInitUserData"]
    assert text.startswith("#cloud-config\n")
    assert yaml.safe_load(text) == {
        "runcmd": [["systemctl", "mask", "--now", "nvidia-imex.service"]],
        "ssh_authorized_keys": ["ssh-ed25519 AAAA ops"],
    }


def test_disks_are_passed_through_for_weights(rack: dict[str, Any]) -> None:
    """Network disks take an hour for what NVMe takes minutes."""
    assert rack["template"]["localDisks"] == {
        "passthroughGroup": {"requested": True},
        "config": {"kubeletEphemeral": True},
    }


def test_the_control_plane_has_no_public_address(made: Outcome) -> None:
    """Nebius makes one when the field is there, even empty."""
    cluster = made.named("launch-eu-north")["Mk8sV1Cluster"].inputs
    assert "publicEndpoint" not in cluster["controlPlane"]["endpoints"]


def test_without_cidrs_the_networks_own_pools_are_used(run: Run) -> None:
    """Nebius refuses both together."""
    own = run("nebius", lambda region: region["cluster"].pop("nodes"))
    pools = own.named("launch-eu-north-nodes")["VpcV1Subnet"].inputs["ipv4PrivatePools"]
    assert pools == {"useNetworkPools": True}


def test_everything_is_of_the_project(made: Outcome) -> None:
    """Strangers have no rights in it."""
    assert made.providers[0].inputs["parentId"] == "project-e00abc"
    top = [it for it in made.resources if "NodeGroup" not in it.type]
    assert {it.inputs["parentId"] for it in top} == {"project-e00abc"}
