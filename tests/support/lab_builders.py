"""Make pods and nodes for the lab's tests."""

from __future__ import annotations

from typing import Any

from lab.packing_check import NodeView
from lab.pods import PodView


def pod(name: str, **changes: Any) -> PodView:
    """Return a ready, placed pod; `changes` replace its fields."""
    fields: dict[str, Any] = {
        "name": name,
        "namespace": "k3",
        "uid": f"uid-of-{name}",
        "labels": {},
        "annotations": {},
        "owner_uid": None,
        "node": "n00",
        "phase": "Running",
        "ready": True,
        "address": "10.64.0.10",
        "restarts": 0,
        "deleting": False,
        "grace_s": 30.0,
        "spec": {"containers": [{"name": "main"}]},
    }
    return PodView(**(fields | changes))


def replica_pods(replica: str, leader_node: str | None, worker_node: str | None) -> list[PodView]:
    """Return the two pods of a replica on the given nodes."""
    index = "leaderworkerset.sigs.k8s.io/worker-index"
    label = {"k3fleet.io/replica": replica}
    return [
        pod(f"{replica}-0", node=leader_node, labels={**label, index: "0"}),
        pod(f"{replica}-0-1", node=worker_node, labels={**label, index: "1"}),
    ]


def rack_nodes(rack: str, healthy: int, total: int = 18) -> list[NodeView]:
    """Return a rack's nodes, the first `healthy` of them healthy."""
    return [
        NodeView(name=f"{rack}-n{index:02d}", rack=rack, healthy=index < healthy)
        for index in range(total)
    ]
