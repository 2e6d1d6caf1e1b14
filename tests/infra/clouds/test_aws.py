"""What is asked of AWS for a cluster and its racks."""

from __future__ import annotations

import base64
import email
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from provider_fleets import ADDONS, AWS_COMPUTED, aws_cluster, aws_rack, aws_region, write_fleet
from pulumi_mocks import Monitor, Registration, registrations, run_entry

import infra.clouds
from fleet.clouds.aws_cards import card_table

ENTRY = Path(infra.clouds.__file__).parents[1] / "cluster"
RACK = "us-east-r01"
Made = Callable[..., dict[str, Registration]]
GIVEN_NETWORK = {
    "vpc": "vpc-0123456789abcdef0",
    "control_plane": {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"},
    "nodes": {"us-east-1-dfw-2a": "subnet-0000000c"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Run the program for a region of AWS, as it is or with some changes to its cluster."""
    folder = tmp_path_factory.mktemp("aws")

    def run(region: dict[str, Any] | None = None, **cluster: object) -> dict[str, Registration]:
        region = region or aws_region(cluster=aws_cluster(**cluster))
        monitor = Monitor(computed=AWS_COMPUTED)
        config = {"fleet": str(write_fleet(folder, region)), "region": "us-east"}
        run_entry(monitor, ENTRY, "cluster-us-east", config)
        return registrations(monitor)

    usual = run()
    return lambda *given, **changes: run(*given, **changes) if given or changes else usual


def cluster_of(found: dict[str, Registration]) -> Registration:
    return found["aws:eks/cluster:Cluster::us-east-cluster"]


def group_of(found: dict[str, Registration], rack: str = RACK) -> Registration:
    return found[f"aws:eks/nodeGroup:NodeGroup::rack.{rack}"]


def template_of(found: dict[str, Registration], rack: str = RACK) -> Registration:
    return found[f"aws:ec2/launchTemplate:LaunchTemplate::rack.{rack}"]


def of_type(found: dict[str, Registration], kind: str) -> list[Registration]:
    return [item for item in found.values() if item.type.endswith(f":{kind}")]


def test_a_rack_is_one_node_group_on_one_block(made: Made) -> None:
    """EKS rejects a group for a block that lacks any of these, or has a second subnet."""
    region = aws_region(racks=2)
    region["racks"][1]["capacity"] = aws_rack(77)
    found = made(region)
    assert template_of(found, "us-east-r02").inputs["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": "cr-0000000000000004d"}
    }
    template, group = template_of(found).inputs, group_of(found).inputs
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert template["instanceType"] == "p6e-gb300.36xlarge"
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert group["amiType"] == "AL2023_ARM_64_NVIDIA"
    assert group["subnetIds"] == ["us-east-nodes-us-east-1-dfw-2a-id"]
    assert group["launchTemplate"] == {"id": f"rack.{RACK}-id", "version": "1"}
    # In the template already: EKS refuses to be told twice.
    assert "instanceTypes" not in group
    assert "diskSize" not in group


def test_a_racks_nodes_are_labelled_and_kept_for_engines(made: Made) -> None:
    """Replicas are pinned to the label; only what tolerates the taint may take a GPU node."""
    group = group_of(made()).inputs
    assert group["labels"] == {"k3fleet.io/rack": RACK}
    assert group["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
    assert group["tags"]["k3fleet:rack"] == RACK


def test_a_racks_size_is_left_to_who_drains_it(made: Made) -> None:
    """EKS itself scales to 0 before the block ends; `up` must not start nodes again."""
    group = group_of(made())
    assert group.ignored == ("scalingConfig.desiredSize",)
    assert group.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 18, "desiredSize": 18}
    region = aws_region(racks=1)
    region["racks"][0]["capacity"]["initial_nodes"] = 0
    assert group_of(made(region)).inputs["scalingConfig"]["desiredSize"] == 0


def test_a_racks_group_goes_before_its_successor_comes(made: Made) -> None:
    """A block has no node to spare: made before the old one is gone, the new group waits for it."""
    group = group_of(made())
    assert group.replaced_after_delete
    assert group.inputs["updateConfig"] == {"updateStrategy": "MINIMAL", "maxUnavailable": 2}
    assert group.timeouts["update"] == "180m"


def test_card_0_carries_pods_and_the_others_efa_alone(made: Made) -> None:
    """P6e takes no EFA on card 0, and every card of an UltraServer has device index 0."""
    cards = [
        (card["networkCardIndex"], card["deviceIndex"], card["interfaceType"])
        for card in template_of(made()).inputs["networkInterfaces"]
    ]
    efa = card_table()["p6e-gb300.36xlarge"].efa_cards
    assert cards == [(0, 0, "interface"), *((card, 0, "efa-only") for card in efa)]


def test_an_allowed_instance_type_without_a_table_has_one_card(made: Made) -> None:
    """A layout is never guessed: EC2 refuses a launch with a card that is not there."""
    region = aws_region(racks=1, cluster=aws_cluster(instance_types=["p9.48xlarge"]))
    region["racks"][0]["capacity"]["instance_type"] = "p9.48xlarge"
    (card,) = template_of(made(region)).inputs["networkInterfaces"]
    assert card["interfaceType"] == "interface"


def test_engines_and_system_pods_reach_each_other(made: Made) -> None:
    """A template with interfaces leaves the cluster's security group out unless it names it."""
    found = made()
    for card in template_of(found).inputs["networkInterfaces"]:
        assert card["securityGroups"] == ["sg-cluster", "us-east-fabric-id"]
    system = found["aws:ec2/launchTemplate:LaunchTemplate::us-east-system-template"].inputs
    assert "networkInterfaces" not in system  # and so EKS puts them into the cluster's group
    assert "vpcSecurityGroupIds" not in system


def test_efa_has_a_group_that_talks_to_itself(made: Made) -> None:
    """EFA wants a rule to and from the group itself, not only one to everywhere."""
    (fabric,) = of_type(made(), "SecurityGroup")
    for way in ("ingress", "egress"):
        assert fabric.inputs[way] == [{"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}]


def test_the_nodes_own_disks_become_one(made: Made) -> None:
    """Nodeadm leaves them raw unless it is told; weights would land on the root disk."""
    text = base64.b64decode(template_of(made()).inputs["userData"]).decode()
    message = email.message_from_string(text)
    (part,) = message.get_payload()
    assert part.get_content_type() == "application/node.eks.aws"
    config = yaml.safe_load(part.get_payload(decode=True))
    assert config["apiVersion"] == "node.eks.aws/v1alpha1"
    assert config["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}


def test_user_data_is_the_same_in_every_run(made: Made) -> None:
    """A MIME boundary drawn at random would roll 18 nodes at each `up`."""
    again = made(aws_region())
    assert template_of(again).inputs["userData"] == template_of(made()).inputs["userData"]


@pytest.mark.parametrize("name", [f"rack.{RACK}", "us-east-system-template"])
def test_nodes_have_encrypted_disks_and_metadata_by_session(made: Made, name: str) -> None:
    """With one hop, a pod cannot take its node's role."""
    template = made()[f"aws:ec2/launchTemplate:LaunchTemplate::{name}"].inputs
    (disk,) = template["blockDeviceMappings"]
    assert disk["ebs"]["encrypted"] == "true"
    assert template["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }


def test_what_a_template_makes_is_tagged(made: Made) -> None:
    """The provider's default tags end at the template; the bill would not know the rack."""
    for item in template_of(made()).inputs["tagSpecifications"]:
        assert item["tags"]["k3fleet:rack"] == RACK
        assert item["tags"]["k3fleet:fleet"] == "launch"


def test_an_ami_comes_to_one_rack_at_a_time(made: Made) -> None:
    """It is a key of the rack: a wave is one line of the file."""
    region = aws_region(racks=2)
    region["racks"][0]["capacity"]["ami_release"] = "1.34.2-20251112"
    found = made(region)
    assert group_of(found).inputs["releaseVersion"] == "1.34.2-20251112"
    assert "releaseVersion" not in group_of(found, "us-east-r02").inputs
    assert "version" not in group_of(found).inputs


def test_the_control_plane_is_private_unless_networks_are_named(made: Made) -> None:
    """0.0.0.0/0 is EKS's default once the endpoint is public."""
    private = cluster_of(made()).inputs["vpcConfig"]
    assert private["endpointPublicAccess"] is False
    assert private["endpointPrivateAccess"] is True
    named = made(endpoint={"public_from": ["192.0.2.0/24"]})
    assert cluster_of(named).inputs["vpcConfig"]["publicAccessCidrs"] == ["192.0.2.0/24"]
    assert cluster_of(named).inputs["vpcConfig"]["endpointPublicAccess"] is True


def test_the_control_plane_stays_out_of_local_zones(made: Made) -> None:
    """EKS refuses a subnet of a Local Zone there, and wants two regional ones."""
    assert cluster_of(made()).inputs["vpcConfig"]["subnetIds"] == [
        "us-east-control-plane-us-east-1a-id",
        "us-east-control-plane-us-east-1b-id",
    ]


def test_the_cluster_cannot_be_deleted_by_mistake(made: Made) -> None:
    """Three locks: EKS's, Pulumi's, and the state's."""
    cluster = cluster_of(made())
    assert cluster.inputs["deletionProtection"] is True
    assert cluster.protect
    assert cluster.retain


def test_aws_does_not_upgrade_the_cluster_by_itself(made: Made) -> None:
    """With STANDARD support it does, on the last day of a version."""
    assert cluster_of(made()).inputs["upgradePolicy"] == {"supportType": "EXTENDED"}


def test_only_named_administrators_get_in(made: Made) -> None:
    """Whoever ran `up` first would otherwise be one for ever, unseen."""
    found = made()
    access = cluster_of(found).inputs["accessConfig"]
    assert access == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": False,
    }
    (entry,) = of_type(found, "AccessEntry")
    (policy,) = of_type(found, "AccessPolicyAssociation")
    assert entry.inputs["principalArn"] == "arn:aws:iam::123456789012:role/sre"
    assert policy.inputs["policyArn"].endswith("/AmazonEKSClusterAdminPolicy")
    assert entry.name in policy.needs


def test_secrets_are_encrypted_with_a_key(made: Made) -> None:
    """One of ours, protected, or the one that is given."""
    found = made()
    (key,) = of_type(found, "Key")
    assert key.inputs["enableKeyRotation"] is True
    assert key.protect
    own = "arn:aws:kms:us-east-1:123456789012:key/mine"
    given = made(secrets_key=own)
    assert of_type(given, "Key") == []
    assert cluster_of(given).inputs["encryptionConfig"] == {
        "resources": ["secrets"],
        "provider": {"keyArn": own},
    }


def test_logs_have_an_end(made: Made) -> None:
    """EKS makes a group that keeps them for ever, unless it finds one of this name."""
    found = made(log_days=30, logs=["audit"])
    (logs,) = of_type(found, "LogGroup")
    assert logs.inputs == {"name": "/aws/eks/launch-us-east/cluster", "retentionInDays": 30}
    assert logs.name in cluster_of(found).needs
    assert cluster_of(found).inputs["enabledClusterLogTypes"] == ["audit"]


def test_roles_can_do_no_more_than_their_part(made: Made) -> None:
    """Nodes pull images and join; addresses are the CNI's business, with a role of its own."""
    policies = {
        item.name: item.inputs["policyArn"].rpartition("/")[2]
        for item in of_type(made(), "RolePolicyAttachment")
    }
    assert sorted(policies.values()) == [
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEKSClusterPolicy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
    ]
    assert all("*" not in policy for policy in policies.values())


def test_each_role_is_for_one_service(made: Made) -> None:
    """A role that any service may take is a way around the account."""
    trusted = {}
    for role in of_type(made(), "Role"):
        (statement,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
        trusted[role.name] = statement["Principal"]["Service"]
    assert trusted == {
        "us-east-control-plane-role": "eks.amazonaws.com",
        "us-east-nodes-role": "ec2.amazonaws.com",
        "us-east-vpc-cni-role": "pods.eks.amazonaws.com",
    }


def test_add_ons_have_the_pinned_versions(made: Made) -> None:
    """A cluster that takes the newest is another cluster next week."""
    found = made()
    versions = {
        item.inputs["addonName"]: item.inputs["addonVersion"] for item in of_type(found, "Addon")
    }
    assert versions == ADDONS
    assert cluster_of(found).inputs["bootstrapSelfManagedAddons"] is False


def test_nodes_come_after_what_makes_them_ready(made: Made) -> None:
    """Without network or role a node group fails after half an hour of waiting."""
    found = made()
    needs = group_of(found).needs
    assert {"us-east-addon-vpc-cni", "us-east-addon-kube-proxy"} <= needs
    assert "us-east-nodes-AmazonEKSWorkerNodePolicy" in needs
    assert "us-east-nodes-us-east-1-dfw-2a" in needs  # the way out of its subnet
    dns = found["aws:eks/addon:Addon::us-east-addon-coredns"]
    assert "us-east-system-nodes" in dns.needs


def test_weights_come_through_the_gateway_endpoint(made: Made) -> None:
    """27 TB for a rack through a NAT gateway are paid by the byte, and slow."""
    found = made()
    (endpoint,) = of_type(found, "VpcEndpoint")
    assert endpoint.inputs["vpcEndpointType"] == "Gateway"
    assert endpoint.inputs["serviceName"] == "com.amazonaws.us-east-1.s3"
    assert "us-east-nodes-us-east-1-dfw-2a-id" in endpoint.inputs["routeTableIds"]


def test_nodes_in_a_local_zone_leave_through_the_region(made: Made) -> None:
    """Local Zones have no NAT gateway to count on; regional zones keep to their own."""
    gateways = {
        item.name: item.inputs["natGatewayId"]
        for item in of_type(made(), "Route")
        if "natGatewayId" in item.inputs
    }
    assert gateways == {
        "us-east-control-plane-us-east-1a": "us-east-nat-us-east-1a-id",
        "us-east-control-plane-us-east-1b": "us-east-nat-us-east-1b-id",
        "us-east-nodes-us-east-1-dfw-2a": "us-east-nat-us-east-1a-id",
    }


def test_no_node_has_a_public_address(made: Made) -> None:
    """Nothing from outside reaches an engine but through the gateway."""
    for subnet in of_type(made(), "Subnet"):
        assert subnet.inputs["mapPublicIpOnLaunch"] is False


def test_a_given_network_is_used_and_left_alone(made: Made) -> None:
    """Its owner has routes, gateways and endpoints of his own."""
    found = made(network=None, given_network=GIVEN_NETWORK)
    network = ("Vpc", "Subnet", "Route", "RouteTable", "NatGateway", "Eip", "VpcEndpoint")
    assert [item.name for kind in network for item in of_type(found, kind)] == []
    assert cluster_of(found).inputs["vpcConfig"]["subnetIds"] == [
        "subnet-0000000a",
        "subnet-0000000b",
    ]
    assert group_of(found).inputs["subnetIds"] == ["subnet-0000000c"]
    (fabric,) = of_type(found, "SecurityGroup")
    assert fabric.inputs["vpcId"] == "vpc-0123456789abcdef0"


def test_credentials_of_another_account_are_refused(made: Made) -> None:
    """The wrong profile in a shell must not make a cluster in somebody else's account."""
    provider = made()["pulumi:providers:aws::us-east-aws"].inputs
    assert json.loads(provider["allowedAccountIds"]) == ["123456789012"]
    assert provider["region"] == "us-east-1"
    assert json.loads(provider["defaultTags"]) == {
        "tags": {
            "k3fleet:fleet": "launch",
            "k3fleet:region": "us-east",
            "k3fleet:managed-by": "k3fleet",
        }
    }


@pytest.mark.parametrize("rack", ["us-east-system", "system-nodes", "k3fleet-system"])
def test_no_rack_can_be_called_like_a_part_of_its_region(made: Made, rack: str) -> None:
    """Two node groups of one name: the second would take over the first."""
    region = aws_region(racks=1)
    region["racks"][0]["id"] = rack
    found = made(region)  # `registrations` refuses an URN that is declared twice
    names = [item.inputs["nodeGroupName"] for item in of_type(found, "NodeGroup")]
    assert len(names) == len(set(names)) == 2
