"""Whether the clusters of a fleet can be made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from provider_fleets import ADDONS, aws_cluster, aws_rack, aws_region, write_fleet

from fleet.errors import ConfigError
from fleet.load import load_fleet
from fleet.provisioning import load_provisionable

Change = Callable[[Any], object]
ROLE = "arn:aws:iam::123456789012:role/sre"


def problems(path: Path, region: str | None = None) -> list[str]:
    """Give what is found, without file and line."""
    load_fleet(path)  # valid by itself: only making its clusters is not possible
    with pytest.raises(ConfigError) as caught:
        load_provisionable(path, region)
    assert all(problem.line for problem in caught.value.problems)
    return [f"{problem.path}: {problem.what}" for problem in caught.value.problems]


def test_a_complete_fleet_can_be_made(tmp_path: Path) -> None:
    """Otherwise every other test here would prove nothing."""
    other = aws_region("us-north", first=3)
    here = {"name": "here", "racks": [{"id": "h-r01"}]}
    path = write_fleet(tmp_path, aws_region(), other, here)
    assert load_provisionable(path).spec.name == "launch"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(
            lambda region: region.pop("cluster"),
            "regions[0]: cloud aws, but no cluster says what to make there",
            id="no cluster",
        ),
        pytest.param(
            lambda region: region["racks"][1].pop("capacity"),
            "regions[0].racks[1]: rack us-east-r02 has no capacity, so that nothing could run "
            "on it",
            id="no capacity",
        ),
        pytest.param(
            lambda region: region["cluster"].update(zone_groups=[]),
            "regions[0].cluster.network.nodes.us-east-1-dfw-2a: us-east-1-dfw-2a is a Local Zone, "
            "and its zone group is not named",
            id="no zone group",
        ),
        pytest.param(
            lambda region: region["racks"][0].update(
                capacity=aws_rack(1, instance_type="p6e-gb300.36xlarg")
            ),
            "regions[0].racks[0].capacity.instance_type: 'p6e-gb300.36xlarg' is not known as a "
            "tray of a rack",
            id="unknown instance type",
        ),
        pytest.param(
            lambda region: region["racks"][1].update(capacity=aws_rack(1)),
            "regions[0].racks[1].capacity.reservation: reservation cr-00000000000000001 is that "
            "of rack us-east-r01 too",
            id="same reservation",
        ),
        pytest.param(
            lambda region: region["racks"][0].update(capacity=aws_rack(1, zone="us-east-1-chi-2a")),
            "regions[0].racks[0].capacity.zone: cluster.network.nodes has no subnet in "
            "us-east-1-chi-2a",
            id="zone without subnet",
        ),
        pytest.param(
            lambda region: region["cluster"].update(admins=["arn:aws:iam::999999999999:role/sre"]),
            "regions[0].cluster.admins: 'arn:aws:iam::999999999999:role/sre' is of another "
            "account than 123456789012",
            id="administrator of another account",
        ),
        pytest.param(
            lambda region: region["cluster"].update(admins=[ROLE, ROLE]),
            f"regions[0].cluster.admins: '{ROLE}' is given twice",
            id="administrator twice",
        ),
        pytest.param(
            lambda region: region["cluster"].update(
                addons={key: value for key, value in ADDONS.items() if key != "coredns"}
            ),
            "regions[0].cluster.addons: coredns missing: without them no pod of a cluster gets "
            "to run",
            id="no DNS",
        ),
        pytest.param(
            lambda region: region["cluster"].update(
                secrets_key="arn:aws:kms:eu-west-1:123456789012:key/a"
            ),
            "regions[0].cluster.secrets_key: a key of eu-west-1, and AWS takes only keys of its "
            "own region here",
            id="key of another region",
        ),
        pytest.param(
            lambda region: region["cluster"]["network"].update(
                control_plane={"us-east-1a": "10.20.0.0/20", "us-east-1-dfw-2a": "10.20.16.0/20"}
            ),
            "regions[0].cluster.network.control_plane.us-east-1-dfw-2a: us-east-1-dfw-2a is not a "
            "regional zone of us-east-1",
            id="control plane in a Local Zone",
        ),
        pytest.param(
            lambda region: region["cluster"]["network"].update(public={}),
            "regions[0].cluster.network.public: no zone of the control plane, so that nothing "
            "would reach the internet",
            id="no way out",
        ),
        pytest.param(
            lambda region: region.update(name="e" * 40, racks=region["racks"]),
            f"regions[0].name: the cluster would be called {'a' * 63}-{'e' * 40}, 104 characters",
            id="long name",
        ),
    ],
)
def test_each_mistake_has_a_message_of_its_own(tmp_path: Path, change: Change, found: str) -> None:
    """The operator learns here what the cloud would say after half of the cluster is made."""
    region = aws_region()
    change(region)
    name = "a" * 63 if region["name"] == "e" * 40 else "launch"
    assert found in problems(write_fleet(tmp_path, region, name=name))


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    """One round of corrections, not one per run."""
    region = aws_region()
    region["cluster"]["zone_groups"] = []
    region["racks"][0].pop("capacity")
    region["racks"][1]["capacity"]["instance_type"] = "p5.48xlarge"
    assert len(problems(write_fleet(tmp_path, region))) == 3


def test_an_instance_type_can_be_allowed(tmp_path: Path) -> None:
    """No list of ours is newer than what AWS sells."""
    region = aws_region(cluster=aws_cluster(instance_types=["p7e-vr200.36xlarge"]))
    for number, rack in enumerate(region["racks"], 1):
        rack["capacity"] = aws_rack(number, instance_type="p7e-vr200.36xlarge")
    assert load_provisionable(write_fleet(tmp_path, region))


def test_a_region_is_not_held_up_by_another(tmp_path: Path) -> None:
    """While one region is being bought, the others go on."""
    unfinished = aws_region("us-north", first=3, racks=1)
    unfinished["racks"][0].pop("capacity")
    path = write_fleet(tmp_path, aws_region(), unfinished)
    assert load_provisionable(path, "us-east")
    assert len(problems(path)) == len(problems(path, "us-north")) == 1


def test_a_reservation_of_another_region_is_noticed(tmp_path: Path) -> None:
    """Two racks on one block: the second would wait for nodes for ever."""
    path = write_fleet(tmp_path, aws_region(), aws_region("us-north"))
    assert problems(path, "us-north") == [
        f"regions[1].racks[{index}].capacity.reservation: reservation cr-{index + 1:017x} is that "
        f"of rack us-east-r0{index + 1} too"
        for index in (0, 1)
    ]


def test_existing_racks_are_told_apart_by_their_label(tmp_path: Path) -> None:
    """Two racks with one value would get each other's replicas."""
    region = {
        "name": "here",
        "cluster": {"rack_label": "example.com/rack"},
        "racks": [{"id": f"h-r{n}", "capacity": {"label_value": "one"}} for n in (1, 2)],
    }
    assert problems(write_fleet(tmp_path, region)) == [
        "regions[0].racks[1].capacity.label_value: 'one' is the value of racks[0] too"
    ]
    region["cluster"] = {}
    assert len(problems(write_fleet(tmp_path, region))) == 2
