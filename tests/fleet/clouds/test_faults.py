"""What is valid key by key, and yet no cluster: found by `config lint` and by the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cloud_fleets import Change, add_rack, write_fleet

from fleet.clouds import Cloud
from fleet.errors import ConfigError
from fleet.provisioning import load_provisionable


def problems(folder: Path, cloud: Cloud, change: Change) -> list[str]:
    """Give what is wrong with a changed example, without file and line."""
    with pytest.raises(ConfigError) as caught:
        load_provisionable(write_fleet(folder, cloud, change))
    assert all(problem.line for problem in caught.value.problems)
    return [str(problem).split(" ", 1)[1] for problem in caught.value.problems]


def test_a_release_of_another_kubernetes_is_refused(tmp_path: Path) -> None:
    """Manifests are linted for the fleet's version; the cluster must have it."""

    def older(region: dict[str, Any]) -> None:
        region["cluster"]["version"] = "v1.33.4"

    assert problems(tmp_path, "oci", older) == [
        (
            "regions[0].cluster.version: v1.33.4 is no release of Kubernetes 1.34, which the fleet "
            "file names. Correct it, or kubernetes."
        )
    ]


def test_two_racks_of_one_sub_block_are_refused(tmp_path: Path) -> None:
    """The second pool would wait for nodes that the first one has."""

    def same(region: dict[str, Any]) -> None:
        region["racks"].append({**region["racks"][0], "id": "usc1-r02"})

    (fault,) = problems(tmp_path, "gcp", same)
    assert fault.startswith("regions[0].racks[1].capacity.sub_block: sub-block 'k3-reservation")
    assert "is that of racks[0] too" in fault


def test_two_racks_of_one_block_are_no_mistake(tmp_path: Path) -> None:
    """Without a sub-block, Google chooses: a block has many."""

    def blocks(region: dict[str, Any]) -> None:
        del region["racks"][0]["capacity"]["sub_block"]
        region["racks"].append({**region["racks"][0], "id": "usc1-r02"})

    assert load_provisionable(write_fleet(tmp_path, "gcp", blocks)).spec.regions[0].racks[1]


def test_a_key_of_another_region_is_refused(tmp_path: Path) -> None:
    """GKE would say so after ten minutes."""

    def far(region: dict[str, Any]) -> None:
        key = region["cluster"]["secrets_key"]
        region["cluster"]["secrets_key"] = key.replace("us-central1", "europe-west4")

    (fault,) = problems(tmp_path, "gcp", far)
    assert fault.startswith("regions[0].cluster.secrets_key: 'projects/keys/locations/europe-west4")


def test_a_fabric_is_one_racks_only(tmp_path: Path) -> None:
    """It is the rack."""

    def same(region: dict[str, Any]) -> None:
        region["racks"].append({**region["racks"][0], "id": "iad1-r02"})

    (fault,) = problems(tmp_path, "oci", same)
    assert "is that of rack iad1-r01 too" in fault


def test_a_reservation_of_another_subscription_is_refused(tmp_path: Path) -> None:
    """The cluster's identity gets rights on it, which the provider could not give there."""

    def foreign(region: dict[str, Any]) -> None:
        capacity = region["racks"][0]["capacity"]
        capacity["reservation_group"] = capacity["reservation_group"].replace("001/", "009/")

    assert problems(tmp_path, "azure", foreign) == [
        (
            "regions[0].racks[0].capacity.reservation_group: the reservation group is in another "
            "subscription. Name one of 00000000-0000-0000-0000-000000000001."
        )
    ]


@pytest.mark.parametrize("cloud", ["gcp", "coreweave", "nebius"])
def test_no_rack_is_called_like_the_pool_of_the_system_nodes(tmp_path: Path, cloud: Cloud) -> None:
    """The cloud would refuse the second of the two in the middle of an update."""

    def system(region: dict[str, Any]) -> None:
        region["racks"][0]["id"] = "system"

    (fault,) = problems(tmp_path, cloud, system)
    assert fault.startswith(f"regions[0].racks[0].id: system is what {cloud} is told")
    assert fault.endswith("the pool of the system nodes. Give the rack another id.")


def test_a_name_that_coreweave_refuses_is_refused_here(tmp_path: Path) -> None:
    """Thirty characters for fleet and region together."""

    def long(region: dict[str, Any]) -> None:
        region["name"] = "us-east-02-the-second-of-ours"

    (fault,) = problems(tmp_path, "coreweave", long)
    assert fault.startswith("regions[0].name: the cluster would be called launch-us-east-02")


def test_racks_of_nebius_may_share_a_capacity_block_group(tmp_path: Path) -> None:
    """It reserves as many GPUs as were bought."""
    path = write_fleet(tmp_path, "nebius", add_rack("nebius"))
    racks = yaml.safe_load(path.read_text())["regions"][0]["racks"]
    assert len({rack["capacity"]["reservation"] for rack in racks}) == 1
    assert load_provisionable(path)
