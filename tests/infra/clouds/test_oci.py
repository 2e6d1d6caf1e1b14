"""What is asked of Oracle's cloud."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from cloud_fleets import Outcome, Run

from infra.clouds.oci.cloud_init import certificate_of, cloud_init


@pytest.fixture(scope="module")
def made(run: Run) -> Outcome:
    """Run the page's example."""
    return run("oci")


@pytest.fixture(scope="module")
def launch(made: Outcome) -> dict[str, Any]:
    """Give what a rack's nodes are started as."""
    instance = made.named("iad1-r01")["InstanceConfiguration"].inputs
    details: dict[str, Any] = instance["instanceDetails"]["launchDetails"]
    return details


def test_a_rack_is_one_memory_cluster_on_its_fabric(made: Outcome) -> None:
    """A fabric is an NVLink domain: 18 nodes of one fabric are a rack."""
    rack = made.named("iad1-r01")["ComputeGpuMemoryCluster"]
    assert rack.inputs["gpuMemoryFabricId"] == "ocid1.computegpumemoryfabric.oc1.iad.aaaa"
    assert rack.inputs["size"] == "18"
    assert rack.inputs["instanceConfigurationId"] == "iad1-r01-id"
    assert rack.inputs["computeClusterId"] == "launch-us-ashburn-id"
    assert rack.ignored == ("size",)


def test_nodes_join_label_and_mask_themselves(launch: dict[str, Any]) -> None:
    """Nobody else does: OKE does not know self-managed nodes before they come."""
    text = base64.b64decode(launch["metadata"]["user_data"]).decode()
    assert text.startswith("#cloud-config\n")
    commands = yaml.safe_load(text)["runcmd"]
    assert commands[0] == ["systemctl", "mask", "--now", "nvidia-imex.service"]
    assert commands[1] == [
        *("oke", "bootstrap", "--apiserver-host", "10.80.0.5", "--ca", "Q0E="),
        "--kubelet-extra-args",
        (
            "--node-labels=k3fleet.io/rack=iad1-r01 "
            "--register-with-taints=nvidia.com/gpu=present:NoSchedule"
        ),
    ]


def test_nodes_trust_the_clusters_certificate(launch: dict[str, Any]) -> None:
    """kubelet finds address and certificate where OKE's packages look for them."""
    files = yaml.safe_load(base64.b64decode(launch["metadata"]["user_data"]))["write_files"]
    contents = {file["path"]: file["content"] for file in files}
    assert contents == {"/etc/oke/oke-apiserver": "10.80.0.5", "/etc/kubernetes/ca.crt": "Q0E="}


def test_cloud_init_is_the_same_each_time() -> None:
    """It is in the instance configuration: another order would replace it on every run."""
    labels = {"b": "2", "a": "1"}
    first = cloud_init(host="h", ca="c", node_labels=labels, taint="t")
    other = cloud_init(host="h", ca="c", node_labels=dict(reversed(labels.items())), taint="t")
    assert first == other


def test_the_certificate_is_all_that_is_taken_from_a_kubeconfig() -> None:
    """A kubeconfig with a token in it must not leave one in the nodes' metadata."""
    kubeconfig = yaml.safe_dump(
        {
            "clusters": [{"cluster": {"certificate-authority-data": "Q0E="}}],
            "users": [{"user": {"token": "secret"}}],
        }
    )
    assert certificate_of(kubeconfig) == "Q0E="


def test_iam_is_written_in_the_home_region(made: Outcome) -> None:
    """Other regions refuse it."""
    regions = {item.name: item.inputs["region"] for item in made.providers}
    written = {it.provider for it in made.resources if it.type.startswith("oci:Identity/")}
    assert {regions[name] for name in written} == {"us-phoenix-1"}
    others = {it.provider for it in made.resources if not it.type.startswith("oci:Identity/")}
    assert {regions[name] for name in others} == {"us-ashburn-1"}


def test_in_the_home_region_one_provider_does_it_all(run: Run) -> None:
    """Two of one region and tenancy would not know of each other's resources."""
    at_home = run("oci", lambda region: region["cluster"].update(home_region="us-ashburn-1"))
    assert [item.name for item in at_home.providers] == ["oci-us-ashburn"]


def test_both_providers_name_the_tenancy(made: Outcome) -> None:
    """A profile of another tenancy then fails to sign."""
    assert {it.inputs["tenancyOcid"] for it in made.providers} == {"ocid1.tenancy.oc1..aaaa"}


def test_nodes_may_join_and_nothing_else(made: Outcome) -> None:
    """An instance principal with more rights is more for whoever gets onto a node."""
    statements = made.named("launch-us-ashburn-nodes")["Policy"].inputs["statements"]
    assert statements == [
        (
            "Allow dynamic-group launch-us-ashburn-nodes to {CLUSTER_JOIN} in compartment id "
            "ocid1.compartment.oc1..aaaa"
        )
    ]


def test_no_address_of_the_internet_reaches_in(made: Outcome) -> None:
    """The VCN's own security list lets SSH in from anywhere, so that it is not used."""
    cluster = made.named("launch-us-ashburn")["Cluster"].inputs
    assert cluster["endpointConfig"]["isPublicIpEnabled"] is False
    for part in ("api", "nodes"):
        subnet = made.named(f"launch-us-ashburn-{part}")["Subnet"].inputs
        assert subnet["prohibitInternetIngress"] is True
        assert subnet["securityListIds"] == ["launch-us-ashburn-quiet-id"]


def test_only_named_networks_reach_the_api_server(made: Outcome) -> None:
    """And the nodes, on the two ports that they use."""
    inwards = {
        (it.inputs["source"], it.inputs["tcpOptions"]["destinationPortRange"]["min"])
        for it in made.resources
        if it.type.endswith(":NetworkSecurityGroupSecurityRule")
        and it.inputs["networkSecurityGroupId"] == "launch-us-ashburn-api-id"
        and it.inputs["direction"] == "INGRESS"
    }
    nodes = "launch-us-ashburn-nodes-id"
    assert inwards == {(nodes, 6443), (nodes, 12250), ("10.0.0.0/24", 6443)}


def test_pods_use_flannel_in_an_enhanced_cluster(made: Outcome) -> None:
    """VCN-native pod networking fails on Grace Blackwell; basic clusters take no own nodes."""
    cluster = made.named("launch-us-ashburn")["Cluster"].inputs
    assert cluster["type"] == "ENHANCED_CLUSTER"
    assert cluster["clusterPodNetworkOptions"] == [{"cniType": "FLANNEL_OVERLAY"}]


def test_own_keys_encrypt_secrets_and_disks(made: Outcome, launch: dict[str, Any]) -> None:
    """Two keys, because losing one of them must not lose both."""
    assert made.named("launch-us-ashburn")["Cluster"].inputs["kmsKeyId"] == "ocid1.key.oc1.iad.bbbb"
    assert launch["sourceDetails"]["kmsKeyId"] == "ocid1.key.oc1.iad.cccc"


def test_metadata_wants_the_second_version(launch: dict[str, Any]) -> None:
    """The first one answers whoever can make a node fetch an address."""
    assert launch["instanceOptions"] == {"areLegacyImdsEndpointsDisabled": True}
