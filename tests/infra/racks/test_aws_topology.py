"""AWS is asked for the blocks of its own nodes, as its API has it, and not for ever."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from fleet.errors import FleetError
from fleet.racks.seen import NodeSeen
from infra.racks.aws_topology import WAITS_S, capacity_blocks, reservations

REGION = "us-east-1"
KEYS = dict.fromkeys(("aws_access_key_id", "aws_secret_access_key"), "x")


def node(number: int, provider: str = "aws:///us-east-1-dfw-2a/i-{:017x}") -> NodeSeen:
    return NodeSeen(
        name=f"n{number}",
        provider_id=provider.format(number),
        labels={"topology.kubernetes.io/region": REGION},
    )


@pytest.fixture
def ec2() -> Any:
    """Give a client whose answers are checked against the API's model."""
    return boto3.client("ec2", region_name=REGION, **KEYS)


def instance(number: int) -> str:
    return f"i-{number:017x}"


def test_each_node_gets_its_block(ec2: Any) -> None:
    """Joined by the provider id; nodes of others are not asked for."""
    nodes = [node(1), node(2), node(3, "gce://p/z/n-{}")]
    with Stubber(ec2) as stub:
        found = [
            {"InstanceId": instance(1), "CapacityBlockId": "cb-1"},
            {"InstanceId": instance(2), "CapacityBlockId": "cb-2"},
        ]
        ids = {"InstanceIds": [instance(1), instance(2)]}
        stub.add_response("describe_instance_topology", {"Instances": found}, ids)
        told = capacity_blocks(nodes, lambda _region: ec2, lambda _s: None)
    assert told == {"n1": "cb-1", "n2": "cb-2"}


def test_a_block_that_is_not_known_yet_is_asked_for_again(ec2: Any) -> None:
    """Right after a launch it is null; only those that lack one are asked for."""
    pauses: list[float] = []
    with Stubber(ec2) as stub:
        first = [
            {"InstanceId": instance(1), "CapacityBlockId": "cb-1"},
            {"InstanceId": instance(2)},
        ]
        stub.add_response("describe_instance_topology", {"Instances": first})
        second = [{"InstanceId": instance(2), "CapacityBlockId": "cb-1"}]
        stub.add_response(
            "describe_instance_topology", {"Instances": second}, {"InstanceIds": [instance(2)]}
        )
        told = capacity_blocks([node(1), node(2)], lambda _region: ec2, pauses.append)
    assert (told, pauses) == ({"n1": "cb-1", "n2": "cb-1"}, [WAITS_S[0]])


def test_it_ends_without_an_answer(ec2: Any) -> None:
    """A node that is in no block never gets one."""
    pauses: list[float] = []
    with Stubber(ec2) as stub:
        for _ in range(len(WAITS_S) + 1):
            stub.add_response("describe_instance_topology", {"Instances": []})
        assert capacity_blocks([node(1)], lambda _region: ec2, pauses.append) == {}
    assert pauses == list(WAITS_S)


def test_a_hundred_at_a_time(ec2: Any) -> None:
    """The API takes no more."""
    sizes = []

    class Counting:
        def describe_instance_topology(self, **asked: Any) -> Any:
            ids = asked["InstanceIds"]
            sizes.append(len(ids))
            return {"Instances": [{"InstanceId": i, "CapacityBlockId": "cb-1"} for i in ids]}

    nodes = [node(number) for number in range(216)]
    assert len(capacity_blocks(nodes, lambda _region: Counting(), lambda _s: None)) == 216
    assert sizes == [100, 100, 16]


def test_a_block_has_the_reservation_that_the_fleet_file_names(ec2: Any) -> None:
    """The file says cr-…, topology says cb-…."""
    with Stubber(ec2) as stub:
        block = {"CapacityBlockId": "cb-1", "CapacityReservationIds": ["cr-1"]}
        stub.add_response(
            "describe_capacity_blocks", {"CapacityBlocks": [block]}, {"CapacityBlockIds": ["cb-1"]}
        )
        assert reservations(["cb-1", "cb-1"], ec2) == {"cb-1": ("cr-1",)}


def test_a_refusal_says_what_to_do(ec2: Any) -> None:
    """Without the answer's body."""
    with Stubber(ec2) as stub:
        stub.add_client_error("describe_instance_topology", "UnauthorizedOperation", "secret")
        with pytest.raises(FleetError, match="EC2 instance topology") as raised:
            capacity_blocks([node(1)], lambda _region: ec2, lambda _s: None)
    assert "secret" not in str(raised.value)
