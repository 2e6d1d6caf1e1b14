"""Describe the lab's nodes: the trays of each rack as a GB300 node shows itself, and CPU nodes.

Labels and taints follow what GPU feature discovery, the device plugin and node feature
discovery put on a real node; the rack label is ours.
"""

from __future__ import annotations

import uuid
from typing import Any

from fleet.hardware import Hardware
from fleet.region_spec import RackSpec

RACK_LABEL = "k3fleet.io/rack"
HEALTH_LABEL = "k3fleet.io/health"
# Grace CPU: 72 cores and 480 GB LPDDR5X per superchip, two of them in a tray.
TRAY_CPUS = "144"
TRAY_MEMORY = "960Gi"
CPU_NODES_PER_REGION = 2

Node = dict[str, Any]


def node_name(rack_id: str, tray: int) -> str:
    """Name of the node in one tray (0 is the lowest) of a rack."""
    return f"{rack_id}-n{tray:02d}"


def rack_nodes(rack: RackSpec, hardware: Hardware) -> list[Node]:
    """List a rack's nodes; those beyond `healthy_nodes` are cordoned, as a health agent would."""
    return [
        _tray(rack, tray, hardware, healthy=tray < rack.healthy_nodes)
        for tray in range(hardware.nodes_per_rack)
    ]


def cpu_nodes(region: str) -> list[Node]:
    """List a region's nodes without GPUs, where frontends and gateways run."""
    return [
        _node(
            f"{region}-cpu{index}",
            labels={},
            capacity={"cpu": "96", "memory": "384Gi", "pods": "110", "ephemeral-storage": "1Ti"},
        )
        for index in range(CPU_NODES_PER_REGION)
    ]


def _tray(rack: RackSpec, tray: int, hardware: Hardware, *, healthy: bool) -> Node:
    clique = f"{uuid.uuid5(uuid.NAMESPACE_DNS, rack.id)}.0"
    node = _node(
        node_name(rack.id, tray),
        labels={
            RACK_LABEL: rack.id,
            HEALTH_LABEL: "healthy" if healthy else "unhealthy",
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": hardware.gpu_product,
            "nvidia.com/gpu.count": str(hardware.gpus_per_node),
            "nvidia.com/gpu.clique": clique,
            "feature.node.kubernetes.io/pci-10de.present": "true",
        },
        capacity={
            "cpu": TRAY_CPUS,
            "memory": TRAY_MEMORY,
            "pods": "110",
            "ephemeral-storage": "7Ti",
            "nvidia.com/gpu": str(hardware.gpus_per_node),
        },
    )
    node["spec"] = {
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        "unschedulable": not healthy,
    }
    return node


def _node(name: str, *, labels: dict[str, str], capacity: dict[str, str]) -> Node:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "arm64",
                "kubernetes.io/os": "linux",
                **labels,
            },
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }
