"""Write fleet files with clusters in clouds, for the tests of the programs that make them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ADDONS = {
    "vpc-cni": "v1.20.4-eksbuild.2",
    "kube-proxy": "v1.34.1-eksbuild.2",
    "coredns": "v1.12.4-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.9-eksbuild.3",
}

# What AWS itself decides about what is made: resource type -> outputs.
AWS_COMPUTED: Mapping[str, Mapping[str, Any]] = {
    "aws:eks/cluster:Cluster": {
        "endpoint": "https://cluster.test",
        "certificateAuthority": {"data": "Q0VSVA=="},
        "vpcConfig": {"clusterSecurityGroupId": "sg-cluster"},
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
}

GCP_COMPUTED: Mapping[str, Mapping[str, Any]] = {
    "gcp:container/cluster:Cluster": {
        "privateClusterConfig": {"privateEndpoint": "10.0.0.2"},
        "masterAuth": {"clusterCaCertificate": "Q0VSVA=="},
    },
    "gcp:serviceaccount/account:Account": {"email": "nodes@launch.test"},
}


def aws_cluster(**changes: object) -> dict[str, Any]:
    """Describe an EKS cluster of us-east-1 with racks in a Local Zone."""
    cluster: dict[str, Any] = {
        "account": "123456789012",
        "region": "us-east-1",
        "network": {
            "cidr": "10.20.0.0/16",
            "control_plane": {"us-east-1a": "10.20.0.0/20", "us-east-1b": "10.20.16.0/20"},
            "public": {"us-east-1a": "10.20.32.0/24", "us-east-1b": "10.20.33.0/24"},
            "nodes": {"us-east-1-dfw-2a": "10.20.64.0/20"},
        },
        "zone_groups": ["us-east-1-dfw-2"],
        "admins": ["arn:aws:iam::123456789012:role/sre"],
        "addons": dict(ADDONS),
    }
    return {**cluster, **changes}


def aws_rack(number: int, **changes: object) -> dict[str, Any]:
    """Describe what AWS sold for a rack."""
    capacity: dict[str, Any] = {
        "reservation": f"cr-{number:017x}",
        "zone": "us-east-1-dfw-2a",
    }
    return {**capacity, **changes}


def aws_region(name: str = "us-east", racks: int = 2, first: int = 1, **changes: object) -> Any:
    """Describe a region of AWS with some racks."""
    region: dict[str, Any] = {
        "name": name,
        "cloud": "aws",
        "cluster": aws_cluster(),
        "racks": [
            {"id": f"{name}-r{number:02}", "capacity": aws_rack(number)}
            for number in range(first, first + racks)
        ],
    }
    return {**region, **changes}


def gcp_region(name: str, racks: int = 4) -> dict[str, Any]:
    """Describe a region of Google Cloud with some racks."""
    return {
        "name": name,
        "cloud": "gcp",
        "cluster": {
            "project": "launch-123",
            "zone": "us-central1-b",
            "version": "1.34.3-gke.1318000",
            "hold_upgrades_from": "2026-12-01T00:00:00Z",
        },
        "racks": [
            {
                "id": f"{name}-r{number:02}",
                "capacity": {"reservation": name, "block": "b1", "sub_block": f"s{number}"},
            }
            for number in range(1, racks + 1)
        ],
    }


def existing_region(name: str, racks: int = 4) -> dict[str, Any]:
    """Describe a region that is there already, with labelled racks."""
    return {
        "name": name,
        "context": f"prod-{name}",
        "cluster": {"rack_label": "example.com/rack", "endpoint": f"https://{name}.test:6443"},
        "racks": [
            {"id": f"{name}-r{number:02}", "capacity": {"label_value": f"DH{number}"}}
            for number in range(1, racks + 1)
        ],
    }


def write_fleet(folder: Path, *regions: Mapping[str, Any], **changes: object) -> Path:
    """Write a fleet file with some regions."""
    fleet = {
        "apiVersion": "k3fleet/v1",
        "name": "launch",
        "release": "vllm-tp8-dcp8",
        "kubernetes": "1.34",
        "regions": list(regions),
    }
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump({**fleet, **changes}, sort_keys=False))
    return path
