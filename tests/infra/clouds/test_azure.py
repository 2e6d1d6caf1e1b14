"""What is asked of Azure."""

from __future__ import annotations

from typing import Any

import pytest
from cloud_fleets import SECOND_RACK, Outcome, Run, add_rack

from infra.operators import operator_facts

SUBSCRIPTION = "/subscriptions/00000000-0000-0000-0000-000000000001"
CAPACITY = f"{SUBSCRIPTION}/resourceGroups/capacity"


@pytest.fixture(scope="module")
def made(run: Run) -> Outcome:
    """Run the page's example with a second rack."""
    return run("azure", add_rack("azure"))


@pytest.fixture(scope="module")
def cluster(made: Outcome) -> dict[str, Any]:
    """Give the cluster's inputs."""
    return made.named("launch-us-east2")["ManagedCluster"].inputs


@pytest.fixture(scope="module")
def rack(made: Outcome) -> dict[str, Any]:
    """Give the inputs of the rack's agent pool."""
    return made.named("use2-r01")["AgentPool"].inputs


def test_a_rack_is_a_pool_in_its_reservation(rack: dict[str, Any]) -> None:
    """Azure has no other handle: 18 of this size, reserved together."""
    group = f"{CAPACITY}/providers/Microsoft.Compute/capacityReservationGroups/use2-r01"
    assert rack["capacityReservationGroupID"] == group
    assert (rack["vmSize"], rack["count"]) == ("Standard_ND128isr_GB300_v6", 18)
    assert rack["enableAutoScaling"] is False


def test_pools_have_names_that_aks_takes(made: Outcome) -> None:
    """Twelve lower-case letters and digits, a letter first; rack ids are longer."""
    names = [
        made.named(rack)["AgentPool"].inputs["agentPoolName"] for rack in ("use2-r01", SECOND_RACK)
    ]
    assert len(set(names)) == 2
    assert all(len(name) <= 12 and name.isalnum() and name[0].isalpha() for name in names)


def test_an_update_never_asks_for_a_nineteenth_node(rack: dict[str, Any]) -> None:
    """A rack has none, and the update would wait for it for ever."""
    assert rack["upgradeSettings"] == {"maxSurge": "0", "maxUnavailable": "1"}


def test_the_gpu_operator_brings_the_driver(rack: dict[str, Any]) -> None:
    """Two installers of a driver fight, and without any there is none: the two sides must fit."""
    assert rack["gpuProfile"] == {"driver": "None"}
    assert operator_facts()["gpu_operator"].clouds["azure"]["driver"] == {"enabled": True}
    assert (
        operator_facts()["dra_driver"].clouds["azure"]["nvidiaDriverRoot"] == "/run/nvidia/driver"
    )
    assert rack["nodeTaints"] == ["nvidia.com/gpu=present:NoSchedule"]


def test_kubelet_does_not_search_numa_nodes(rack: dict[str, Any]) -> None:
    """Admission hangs on a Grace tray with any other policy."""
    assert rack["kubeletConfig"] == {"topologyManagerPolicy": "none"}


def test_the_cluster_is_private_and_has_no_local_accounts(cluster: dict[str, Any]) -> None:
    """A kubeconfig with a client certificate cannot be taken back."""
    access = cluster["apiServerAccessProfile"]
    assert access["enablePrivateCluster"] is True
    assert access["enablePrivateClusterPublicFQDN"] is False
    assert cluster["disableLocalAccounts"] is True
    assert cluster["aadProfile"]["adminGroupObjectIDs"] == ["00000000-0000-0000-0000-000000000003"]


def test_upgrades_wait_for_a_person(cluster: dict[str, Any]) -> None:
    """A node that is made again has to load 1.5 TB."""
    none = {"upgradeChannel": "none", "nodeOSUpgradeChannel": "None"}
    assert cluster["autoUpgradeProfile"] == none


def test_rights_are_on_what_is_used(made: Outcome) -> None:
    """AKS wants Contributor for a reservation: on its resource group, and once for two racks."""
    rights = {
        it.name.removeprefix("launch-us-east2-"): (
            it.inputs["roleDefinitionId"].rpartition("/")[2],
            it.inputs["scope"],
        )
        for it in made.resources
        if it.type.endswith(":RoleAssignment")
    }
    assert rights == {
        "subnet": ("4d97b98b-1d4f-4787-a291-c67834d212e7", "launch-us-east2-nodes-id"),
        "kubelet": ("f1a07417-d97a-45cb-824c-7a7467783830", "launch-us-east2-kubelet-id"),
        "vault": (
            "12338af0-0e69-4776-bea7-57ae8d297424",
            f"{SUBSCRIPTION}/resourceGroups/keys/providers/Microsoft.KeyVault/vaults/k3-vault",
        ),
        "capacity": ("b24988ac-6180-42a0-ab88-20f7382dd24c", CAPACITY),
    }


def test_the_cluster_waits_for_its_rights(made: Outcome) -> None:
    """Azure refuses a cluster whose identity may not use the subnet yet."""
    needs = made.named("launch-us-east2")["ManagedCluster"].needs
    assert {f"launch-us-east2-{name}" for name in ("subnet", "kubelet", "vault")} <= needs


def test_own_keys_encrypt_secrets_and_disks(cluster: dict[str, Any]) -> None:
    """The vault is reached privately."""
    key = cluster["securityProfile"]["azureKeyVaultKms"]
    assert key["enabled"] is True
    assert key["keyVaultNetworkAccess"] == "Private"
    assert cluster["diskEncryptionSetID"].endswith("/k3")


def test_nodes_leave_by_one_address_only(made: Outcome) -> None:
    """Without it, Azure gives every machine a way out that nobody sees."""
    subnet = made.named("launch-us-east2-nodes")["Subnet"].inputs
    assert subnet["defaultOutboundAccess"] is False
    assert subnet["natGateway"] == {"id": "launch-us-east2-out-id"}


def test_credentials_of_another_subscription_fail(made: Outcome) -> None:
    """The provider names subscription and tenant."""
    inputs = made.providers[0].inputs
    assert inputs["subscriptionId"] == "00000000-0000-0000-0000-000000000001"
    assert inputs["tenantId"] == "00000000-0000-0000-0000-000000000002"
