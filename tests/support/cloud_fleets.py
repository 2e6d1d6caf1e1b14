"""Make fleets of the examples in docs/clouds.md, and run the cluster program on them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pulumi_mocks import Monitor, Registration, exported, registrations, run_entry

from fleet.clouds import Cloud

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/clouds.md"
KUBECONFIG = (
    "clusters: [{cluster: {server: 'https://10.80.0.5:6443', certificate-authority-data: Q0E=}}]\n"
)

# What only the cloud knows of a resource, and what it answers, by type.
_COMPUTED: dict[str, dict[str, Any]] = {
    "aws:eks/cluster:Cluster": {
        "certificateAuthority": {"data": "Q0E="},
        "endpoint": "https://eks.example",
        "identities": [{"oidcs": [{"issuer": "https://oidc.example"}]}],
        "vpcConfig": {"clusterSecurityGroupId": "sg-1"},
    },
    "gcp:container/cluster:Cluster": {
        "privateClusterConfig": {"privateEndpoint": "10.73.0.2"},
        "masterAuth": {"clusterCaCertificate": "Q0E="},
    },
    "gcp:serviceaccount/account:Account": {"email": "nodes@k3-production.iam"},
    "oci:ContainerEngine/cluster:Cluster": {"endpoints": [{"privateEndpoint": "10.80.0.5:6443"}]},
    "azure-native:containerservice:ManagedCluster": {
        "name": "launch-us-east2",
        "privateFqdn": "launch.private",
        "identity": {"userAssignedIdentities": {}},  # comes back in another shape than it went
    },
    "azure-native:resources:ResourceGroup": {"name": "launch-us-east2"},
    "azure-native:containerservice:AgentPool": {"name": "pool"},
    "azure-native:managedidentity:UserAssignedIdentity": {"principalId": "principal"},
    "coreweave:index/cksCluster:CksCluster": {"apiServerEndpoint": "launch.k8s.example"},
    "nebius:index/mk8sV1Cluster:Mk8sV1Cluster": {
        "status": {
            "controlPlane": {
                "endpoints": {"privateEndpoint": "https://10.144.0.2"},
                "auth": {"clusterCaCertificate": "Q0E="},
            }
        }
    },
}
_ANSWERS: dict[str, dict[str, Any]] = {
    "oci:Core/getServices:getServices": {
        "services": [{"id": "ocid1.service.x", "cidrBlock": "all-iad-services", "name": "All"}]
    },
    "oci:ContainerEngine/getClusterKubeConfig:getClusterKubeConfig": {"content": KUBECONFIG},
}

# What a second rack of an example has instead of the first one's.
_SECOND: dict[Cloud, dict[str, str]] = {
    "aws": {"reservation": "cr-0123456789abcdef1"},
    "gcp": {"sub_block": "k3-reservation-block-0001-subblock-0002"},
    "oci": {"fabric": "ocid1.computegpumemoryfabric.oc1.iad.bbbb"},
    "azure": {
        "reservation_group": "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/"
        "capacity/providers/Microsoft.Compute/capacityReservationGroups/second"
    },
    "coreweave": {},
    "nebius": {},  # racks may share a capacity block group
}
SECOND_RACK = "second-r02"

Change = Callable[[dict[str, Any]], object]
Run = Callable[..., "Outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a program declared and exported."""

    found: Mapping[str, Registration]  # by type::name
    outputs: Mapping[str, object]

    @property
    def providers(self) -> list[Registration]:
        """The providers, which are in the state like all else."""
        return [it for it in self.found.values() if it.type.startswith("pulumi:providers:")]

    @property
    def resources(self) -> list[Registration]:
        """What is made in the cloud."""
        return [it for it in self.found.values() if not it.type.startswith("pulumi:")]

    def named(self, name: str) -> dict[str, Registration]:
        """Give the resources of a name, by the last word of their type."""
        return {it.type.rpartition(":")[2]: it for it in self.resources if it.name == name}


def example(cloud: Cloud) -> dict[str, Any]:
    """Give the fleet file's part that the page shows for a cloud."""
    return dict(yaml.safe_load(_blocks()[cloud]))


def write_fleet(folder: Path, cloud: Cloud, change: Change | None = None) -> Path:
    """Write a whole fleet file of a cloud's example; `change` edits its one region first."""
    data = {"apiVersion": "k3fleet/v1", "name": "launch", "release": "vllm-tp8-dcp8"}
    data |= example(cloud)
    if change:
        change(data["regions"][0])
    (folder / "us-east02.kubeconfig").write_text(KUBECONFIG)
    path = folder / "fleet.yaml"
    copied = json.loads(json.dumps(data))  # YAML would write an anchor for what is there twice
    path.write_text(yaml.safe_dump(copied, sort_keys=False))
    return path


def add_rack(cloud: Cloud) -> Change:
    """Give the change that puts a second rack behind the first one."""

    def change(region: dict[str, Any]) -> None:
        first = region["racks"][0]
        region["racks"].append(
            {"id": SECOND_RACK, "capacity": {**first["capacity"], **_SECOND[cloud]}}
        )

    return change


def run_cluster(fleet: Path) -> Outcome:
    """Run the cluster program's entry file for a fleet's first region."""
    region = yaml.safe_load(fleet.read_text())["regions"][0]["name"]
    monitor = Monitor(computed=_COMPUTED, answers=_ANSWERS)
    config = {"fleet": str(fleet), "region": region}
    run_entry(monitor, ROOT / "infra/cluster", f"cluster-{region}", config)
    return Outcome(found=registrations(monitor), outputs=exported())


@cache
def _blocks() -> dict[str, str]:
    page = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^## (\w+)\n.*?^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return dict(found)
