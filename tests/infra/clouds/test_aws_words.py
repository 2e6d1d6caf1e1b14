"""Whether what is asked of AWS is what AWS's own service models know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from provider_fleets import AWS_COMPUTED, aws_rack, aws_region, write_fleet
from pulumi_mocks import Monitor, Registration, registrations, run_entry

import infra.clouds
from fleet.clouds import SCHEMAS
from infra.clouds.aws.roles import ROLE_NAME_MAX

ENTRY = Path(infra.clouds.__file__).parents[1] / "cluster"
LONG_REGION = f"r{'0' * 39}"  # 40 characters, the most that a fleet file allows
SERVICES = botocore.session.get_session()  # reads the model of a service once
LONG_RACK = f"a{'0' * 35}"

# Resource type, path in its inputs, service, name of the list of words in the service's model.
WORDS = [
    ("NodeGroup", "amiType", "eks", "AMITypes"),
    ("NodeGroup", "capacityType", "eks", "CapacityTypes"),
    ("NodeGroup", "updateConfig.updateStrategy", "eks", "NodegroupUpdateStrategies"),
    ("NodeGroup", "taints.effect", "eks", "TaintEffect"),
    ("Cluster", "accessConfig.authenticationMode", "eks", "AuthenticationMode"),
    ("Cluster", "upgradePolicy.supportType", "eks", "SupportType"),
    ("Cluster", "enabledClusterLogTypes", "eks", "LogType"),
    ("Addon", "resolveConflictsOnCreate", "eks", "ResolveConflicts"),
    ("Addon", "resolveConflictsOnUpdate", "eks", "ResolveConflicts"),
    ("AccessPolicyAssociation", "accessScope.type", "eks", "AccessScopeType"),
    ("LaunchTemplate", "instanceMarketOptions.marketType", "ec2", "MarketType"),
    ("LaunchTemplate", "metadataOptions.httpTokens", "ec2", "LaunchTemplateHttpTokensState"),
    ("LaunchTemplate", "blockDeviceMappings.ebs.volumeType", "ec2", "VolumeType"),
    ("LaunchTemplate", "tagSpecifications.resourceType", "ec2", "ResourceType"),
    ("VpcEndpoint", "vpcEndpointType", "ec2", "VpcEndpointType"),
    ("Eip", "domain", "ec2", "DomainType"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Registration]:
    """Run the program with the longest names that a fleet file may hold."""
    region = aws_region(LONG_REGION, racks=1)
    region["racks"][0] = {"id": LONG_RACK, "capacity": aws_rack(1)}
    region["cluster"]["addons"]["aws-ebs-csi-driver"] = "v1.50.0-eksbuild.1"
    limit = SCHEMAS["aws"].name_max - len(f"-{LONG_REGION}")
    path = write_fleet(tmp_path_factory.mktemp("words"), region, name="f" * limit)
    monitor = Monitor(computed=AWS_COMPUTED)
    run_entry(monitor, ENTRY, "cluster", {"fleet": str(path), "region": LONG_REGION})
    return registrations(monitor)


def values(inputs: Any, path: str) -> Iterator[Any]:
    """Give what stands at a path, of every item where there is a list."""
    key, _, rest = path.partition(".")
    items = inputs if isinstance(inputs, list) else [inputs]
    for item in items:
        value = item.get(key)
        if rest and value is not None:
            yield from values(value, rest)
        elif value is not None:
            yield from value if isinstance(value, list) else [value]


@pytest.mark.parametrize(("kind", "path", "service", "shape"), WORDS)
def test_words_are_those_of_the_service(
    found: dict[str, Registration], kind: str, path: str, service: str, shape: str
) -> None:
    """A misspelt one is refused only in the account, after half of the cluster is made."""
    model = SERVICES.get_service_model(service)
    known = set(model.shape_for(shape).enum)
    used = {
        value
        for item in found.values()
        if item.type.endswith(f":{kind}")
        for value in values(item.inputs, path)
    }
    assert used
    assert used <= known


def test_the_longest_names_fit(found: dict[str, Registration]) -> None:
    """AWS refuses them only when it is asked to make the thing."""
    shape = SERVICES.get_service_model("eks").shape_for("ClusterName")
    limits = {
        "aws:eks/cluster:Cluster": ("name", shape.metadata["max"]),
        "aws:iam/role:Role": ("name", ROLE_NAME_MAX),
        "aws:eks/nodeGroup:NodeGroup": ("nodeGroupName", 63),
        "aws:cloudwatch/logGroup:LogGroup": ("name", 512),
    }
    assert SCHEMAS["aws"].name_max == shape.metadata["max"]
    checked = set()
    for item in found.values():
        if item.type in limits:
            key, limit = limits[item.type]
            assert len(item.inputs[key]) <= limit, item.name
            checked.add(item.type)
    assert checked == set(limits)
    (cluster,) = [item for item in found.values() if item.type == "aws:eks/cluster:Cluster"]
    assert re.fullmatch(shape.metadata["pattern"], cluster.inputs["name"])


def test_shortened_roles_stay_apart(found: dict[str, Registration]) -> None:
    """Two roles of one name would be one role with the rights of both."""
    names = [item.inputs["name"] for item in found.values() if item.type == "aws:iam/role:Role"]
    assert len(names) == len(set(names)) == 4


def test_a_region_in_singapore_can_have_its_security_group(tmp_path: Path) -> None:
    """AWS keeps names that begin with `sg-` for ids."""
    path = write_fleet(tmp_path, aws_region("sg-west", racks=1))
    monitor = Monitor(computed=AWS_COMPUTED)
    run_entry(monitor, ENTRY, "cluster-sg-west", {"fleet": str(path), "region": "sg-west"})
    group = registrations(monitor)["aws:ec2/securityGroup:SecurityGroup::sg-west-fabric"]
    assert not group.inputs["namePrefix"].startswith("sg-")
