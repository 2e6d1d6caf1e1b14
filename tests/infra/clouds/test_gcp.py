"""What is asked of Google Cloud."""

from __future__ import annotations

from typing import Any

import pytest
from cloud_fleets import Outcome, Run


@pytest.fixture(scope="module")
def made(run: Run) -> Outcome:
    """Run the page's example."""
    return run("gcp")


@pytest.fixture(scope="module")
def cluster(made: Outcome) -> dict[str, Any]:
    """Give the cluster's inputs."""
    return made.named("launch-us-central")["Cluster"].inputs


@pytest.fixture(scope="module")
def rack(made: Outcome) -> dict[str, Any]:
    """Give the inputs of the rack's node pool."""
    return made.named("usc1-r01")["NodePool"].inputs


def test_a_rack_asks_for_one_nvlink_domain(made: Outcome, rack: dict[str, Any]) -> None:
    """A pool without the policy is 18 nodes from anywhere in the block."""
    policy = made.named("usc1-r01-domain")["ResourcePolicy"].inputs
    assert policy["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "1x72"}
    assert rack["placementPolicy"] == {"type": "COMPACT", "policyName": policy["name"]}
    assert rack["nodeCount"] == 18


def test_a_rack_is_of_the_reservation(rack: dict[str, Any]) -> None:
    """GPUs on demand do not exist; nor may it take what another team has reserved."""
    block = "k3-reservation-block-0001"
    path = f"k3-reservation/reservationBlocks/{block}/reservationSubBlocks/{block}-subblock-0001"
    assert rack["nodeConfig"]["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [path],
    }


def test_nodes_refuse_what_does_not_tolerate_gpus_and_arm(
    made: Outcome, rack: dict[str, Any]
) -> None:
    """Frontends tolerate nothing: they stay off the racks, and on the Arm machines beside them."""
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    assert rack["nodeConfig"]["taints"] == [taint]
    assert rack["nodeConfig"]["taintConfig"] == {"architectureTaintBehavior": "ARM"}
    system = made.named("launch-us-central-system")["NodePool"].inputs
    assert system["nodeConfig"]["taintConfig"] == {"architectureTaintBehavior": "NONE"}


def test_one_device_plugin_runs_on_a_node(rack: dict[str, Any], run: Run) -> None:
    """Two of them give the same GPUs out twice."""
    label = "gke-no-default-nvidia-gpu-device-plugin"
    assert rack["nodeConfig"]["labels"][label] == "true"
    own = run("gcp", lambda region: region["cluster"].pop("google_device_plugin"))
    assert label not in own.named("usc1-r01")["NodePool"].inputs["nodeConfig"]["labels"]


def test_nodes_have_a_second_and_a_roce_network(made: Outcome, rack: dict[str, Any]) -> None:
    """A4X Max boots with three kinds of cards; a pool that names one network is refused."""
    roce = made.named("launch-us-central-roce")["Network"].inputs
    profile = "projects/k3-production/global/networkProfiles/us-central1-b-vpc-roce-metal"
    assert (roce["networkProfile"], roce["mtu"]) == (profile, 8896)
    assert rack["networkConfig"]["additionalNodeNetworkConfigs"] == [
        {"network": "launch-us-central-second", "subnetwork": "launch-us-central-second"},
        {
            "network": "launch-us-central-roce",
            "subnetwork": "default-subnet-1-launch-us-central-roce",
        },
    ]


def test_an_update_never_asks_for_a_nineteenth_node(rack: dict[str, Any]) -> None:
    """A rack has none, and the update would wait for it for ever."""
    assert rack["upgradeSettings"] == {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 1}


def test_upgrades_wait_for_a_person(cluster: dict[str, Any]) -> None:
    """A node that is made again has to load 1.5 TB."""
    hold = cluster["maintenancePolicy"]["maintenanceExclusions"][0]
    assert hold["startTime"] == "2026-12-01T00:00:00Z"
    assert hold["exclusionOptions"] == {
        "scope": "NO_MINOR_OR_NODE_UPGRADES",
        "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
    }
    assert cluster["minMasterVersion"] == "1.35.3-gke.1318000"


def test_the_cluster_is_private_and_hard_to_delete(cluster: dict[str, Any]) -> None:
    """Who may reach the API server is a list in the fleet file."""
    assert cluster["deletionProtection"] is True
    assert cluster["privateClusterConfig"]["enablePrivateEndpoint"] is True
    assert cluster["privateClusterConfig"]["enablePrivateNodes"] is True
    allowed = cluster["masterAuthorizedNetworksConfig"]["cidrBlocks"]
    assert allowed == [{"cidrBlock": "10.0.0.0/24"}]


def test_own_keys_encrypt_secrets_and_disks(cluster: dict[str, Any], rack: dict[str, Any]) -> None:
    """Two keys, because losing one of them must not lose both."""
    assert cluster["databaseEncryption"]["keyName"].endswith("/secrets")
    assert rack["nodeConfig"]["bootDiskKmsKey"].endswith("/disks")


def test_pods_have_identities_and_nodes_few_rights(made: Outcome, cluster: dict[str, Any]) -> None:
    """A pod that breaks out must not become the project's editor."""
    assert cluster["workloadIdentityConfig"] == {"workloadPool": "k3-production.svc.id.goog"}
    roles = {it.inputs["role"] for it in made.resources if it.type.endswith(":IAMMember")}
    assert roles == {"roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"}


def test_credentials_of_another_project_fail(made: Outcome) -> None:
    """The provider names project, region and zone."""
    inputs = made.providers[0].inputs
    assert (inputs["project"], inputs["region"]) == ("k3-production", "us-central1")
