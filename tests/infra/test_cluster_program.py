"""The program that makes clusters, started by its entry file as `pulumi up` starts it."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
from provider_fleets import (
    AWS_COMPUTED,
    GCP_COMPUTED,
    aws_rack,
    aws_region,
    existing_region,
    gcp_region,
    write_fleet,
)
from pulumi_mocks import Monitor, Registration, exported, registrations, run_entry

import infra.clouds
from infra.clouds.contract import DeclaredCluster
from infra.clouds.protected import PROTECTED_TYPES, RETAINED_TYPES
from infra.outputs import ClusterOutputs, read_outputs

ENTRY = Path(infra.clouds.__file__).parents[1] / "cluster"


def made(path: Path, region: str) -> dict[str, Registration]:
    """Run the program of a region, and give its resources by `type::name`."""
    monitor = Monitor(computed={**AWS_COMPUTED, **GCP_COMPUTED})
    stack = f"cluster-{region}"
    run_entry(monitor, ENTRY, stack, {"fleet": str(path), "region": region})
    return registrations(monitor)


def rack_part(found: Mapping[str, Registration], rack: str) -> set[str]:
    """Name the resources that belong to a rack alone."""
    return {key for key, item in found.items() if rack in f"{key} {item.inputs}"}


def test_a_rack_can_move_in_the_list(tmp_path: Path) -> None:
    """Resources are named by the rack's id: nothing is made anew, nothing changes."""
    region = aws_region(racks=4)
    before = made(write_fleet(tmp_path, region), "us-east")
    draw = random.Random(3)  # noqa: S311 - an order, not a secret
    for _ in range(3):
        draw.shuffle(region["racks"])
        assert made(write_fleet(tmp_path, region), "us-east") == before


def launch_regions() -> list[dict[str, Any]]:
    """Describe three clouds with two regions of four racks each."""
    return [
        aws_region("us-east", racks=4),
        gcp_region("us-central"),
        existing_region("eu-west"),
        aws_region("us-north", racks=4, first=5),
        gcp_region("us-south"),
        existing_region("eu-north"),
    ]


@pytest.mark.parametrize("name", [region["name"] for region in launch_regions()])
def test_three_clouds_of_two_regions_follow_their_rack_ids(tmp_path: Path, name: str) -> None:
    """In any order the same resources; a rack less or more is its own resources less or more."""
    regions = launch_regions()
    region = next(item for item in regions if item["name"] == name)
    before, told = made(write_fleet(tmp_path, *regions), name), exported()
    assert len(told["racks"]) == 4
    regions.reverse()
    region["racks"].reverse()
    assert made(write_fleet(tmp_path, *regions), name) == before
    assert exported() == told
    gone = region["racks"].pop(1)["id"]
    after = made(write_fleet(tmp_path, *regions), name)
    assert set(before) - set(after) == {key for key in before if gone in key}
    assert {key: before[key] for key in after} == after
    assert exported()["racks"] == {
        rack: pool for rack, pool in told["racks"].items() if rack != gone
    }


def test_the_order_of_zones_and_regions_does_not_matter_either(tmp_path: Path) -> None:
    """Mappings of the file have no order, and a region knows nothing of its neighbours."""
    region = aws_region()
    before = made(write_fleet(tmp_path, region), "us-east")
    network = region["cluster"]["network"]
    for key in ("control_plane", "public"):
        network[key] = dict(reversed(network[key].items()))
    region["cluster"]["addons"] = dict(reversed(region["cluster"]["addons"].items()))
    path = write_fleet(tmp_path, aws_region("us-north", first=7), region)
    assert made(path, "us-east") == before


def test_adding_a_rack_adds_its_resources_and_nothing_else(tmp_path: Path) -> None:
    """The racks that serve must not even be looked at."""
    region = aws_region(racks=3)
    before = made(write_fleet(tmp_path, region), "us-east")
    region["racks"].insert(1, {"id": "us-east-r99", "capacity": aws_rack(99)})
    after = made(write_fleet(tmp_path, region), "us-east")
    assert {key: after[key] for key in before} == before
    assert set(after) - set(before) == {
        "aws:ec2/launchTemplate:LaunchTemplate::rack.us-east-r99",
        "aws:eks/nodeGroup:NodeGroup::rack.us-east-r99",
    }


def test_removing_a_rack_removes_exactly_its_resources(tmp_path: Path) -> None:
    """Wherever in the list it was."""
    region = aws_region(racks=4)
    before = made(write_fleet(tmp_path, region), "us-east")
    gone = region["racks"].pop(0)["id"]
    after = made(write_fleet(tmp_path, region), "us-east")
    assert set(before) - set(after) == rack_part(before, gone)
    assert {key: before[key] for key in after} == after


def test_a_change_of_one_rack_stays_in_that_rack(tmp_path: Path) -> None:
    """A new block for one rack must not roll the nodes of another."""
    region = aws_region(racks=4)
    before = made(write_fleet(tmp_path, region), "us-east")
    region["racks"][2]["capacity"]["reservation"] = "cr-0123456789abcdef0"
    after = made(write_fleet(tmp_path, region), "us-east")
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"aws:ec2/launchTemplate:LaunchTemplate::rack.us-east-r03"}


def test_a_new_kubernetes_version_leaves_racks_alone(tmp_path: Path) -> None:
    """AWS wants a block's group at 0 nodes first: the control plane goes ahead by itself."""
    before = made(write_fleet(tmp_path, aws_region()), "us-east")
    after = made(write_fleet(tmp_path, aws_region(), kubernetes="1.35"), "us-east")
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"aws:eks/cluster:Cluster::us-east-cluster"}


def test_what_must_not_die_is_protected_in_every_region(tmp_path: Path) -> None:
    """And what can be made again is not, or no stack could ever change."""
    for key, item in made(write_fleet(tmp_path, aws_region()), "us-east").items():
        assert item.protect == (item.type in PROTECTED_TYPES), key
        assert item.retain == (item.type in RETAINED_TYPES), key


def test_every_resource_goes_through_the_regions_provider(tmp_path: Path) -> None:
    """A default provider would take its account and its region from the environment."""
    fleet = write_fleet(tmp_path, aws_region(), aws_region("us-north", first=7))
    for region in ("us-east", "us-north"):
        found = made(fleet, region).values()
        providers = {item.name for item in found if item.type.startswith("pulumi:providers:")}
        assert providers == {f"{region}-aws"}
        users = {item.provider for item in found if item.type not in ("pulumi:providers:aws",)}
        assert users == providers
        assert not [item.name for item in found if "region" in item.inputs and item.provider]


def test_an_existing_cluster_is_handed_on_and_nothing_is_made(tmp_path: Path) -> None:
    """Its owner would not want a second one to meddle with it."""
    assert made(write_fleet(tmp_path, existing_region("here", racks=2)), "here") == {}
    assert exported() == {
        "region": "here",
        "cloud": "existing",
        "cluster_name": "here",
        "endpoint": "https://here.test:6443",
        "ca": None,
        "racks": {"here-r01": "DH1", "here-r02": "DH2"},
        "kubeconfig_command": [
            *("kubectl", "config", "view", "--minify", "--flatten", "--context", "prod-here"),
        ],
    }


def test_a_fleet_file_of_today_has_outputs_too(tmp_path: Path) -> None:
    """Readers of the stack find the same keys for a region that says nothing of its cluster."""
    made(write_fleet(tmp_path, {"name": "here", "racks": [{"id": "h-r01"}]}), "here")
    outputs = read_outputs("cluster", "cluster-here", exported())
    assert isinstance(outputs, ClusterOutputs)
    assert outputs.racks == {"h-r01": "h-r01"}


def test_outputs_are_what_readers_are_told(tmp_path: Path) -> None:
    """Declared and read cluster have the same fields: nothing is exported that nobody reads."""
    made(write_fleet(tmp_path, aws_region()), "us-east")
    outputs = exported()
    assert set(outputs) == set(ClusterOutputs.model_fields)
    assert set(DeclaredCluster.__dataclass_fields__) == set(outputs) - {"region", "cloud"}
    read = read_outputs("cluster", "cluster-us-east", outputs)
    assert isinstance(read, ClusterOutputs)
    assert read.kubeconfig_command[:3] == ("aws", "eks", "update-kubeconfig")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"region": "us-east"}, "fleet not set"),
        ({"region": "eu"}, r"region eu: not in fleet launch\. Use one of: us-east"),
        ({"region": "us-east", "apiVersion": "k3fleet/v2"}, "newer than this k3fleet"),
    ],
)
def test_a_wrong_stack_is_refused_before_anything_is_declared(
    tmp_path: Path, config: dict[str, str], said: str
) -> None:
    """Pulumi prints the text of a RunError, and a traceback for everything else."""
    if "not set" not in said:
        config = {**config, "fleet": str(write_fleet(tmp_path, aws_region()))}
    monitor = Monitor()
    with pytest.raises(pulumi.RunError, match=said):
        run_entry(monitor, ENTRY, "cluster-us-east", config)
    assert [request.name for request in monitor.requests if request.custom] == []


def test_a_wrong_fleet_is_refused_with_every_fault(tmp_path: Path) -> None:
    """The same check as `k3fleet config lint`: half a cluster is worse than none."""
    region = aws_region()
    region["cluster"]["zone_groups"] = []
    region["racks"][0].pop("capacity")
    monitor = Monitor()
    config = {"fleet": str(write_fleet(tmp_path, region)), "region": "us-east"}
    with pytest.raises(pulumi.RunError, match="zone group is not named") as caught:
        run_entry(monitor, ENTRY, "cluster-us-east", config)
    assert "rack us-east-r01 has no capacity" in str(caught.value)
    assert [request.name for request in monitor.requests if request.custom] == []


def test_two_regions_of_one_fleet_share_no_name(tmp_path: Path) -> None:
    """In one account their clusters, logs and node groups stand side by side."""
    second = aws_region("us-north", first=7)
    path = write_fleet(tmp_path, aws_region(), second)
    named = [
        {
            (item.type, name)
            for item in made(path, region).values()
            if (name := item.inputs.get("name")) is not None
        }
        for region in ("us-east", "us-north")
    ]
    assert named[0]
    assert not named[0] & named[1]


def test_the_fleet_data_of_these_tests_is_not_shared() -> None:
    """Tests change it."""
    one = aws_region()
    kept = copy.deepcopy(one)
    aws_region()["cluster"]["network"]["nodes"].clear()
    assert one == kept
