"""Touch what a rack is made of: nodes, and the objects and pods of its replicas.

Each touch may be done again without harm, and says who did it where somebody will ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node, Pod
from lightkube.types import PatchType

from fleet.racks.seen import NodeSeen
from infra.racks.reader import CORDONED_BY
from infra.rollout.cluster import PARKED, Cluster, LeaderWorkerSet

MANAGER = "k3fleet-racks"  # of the fields that are written here


def cordon(cluster: Cluster, node: NodeSeen, by: str) -> None:
    """Let no more pods onto a node; whoever has done so before stays named."""
    if node.cordoned:
        return
    _patch_node(
        cluster,
        node.name,
        {"metadata": {"annotations": {CORDONED_BY: by}}, "spec": {"unschedulable": True}},
    )


def uncordon(cluster: Cluster, node: NodeSeen) -> None:
    """Let pods onto a node again."""
    if not node.cordoned and not node.cordoned_by:
        return
    _patch_node(
        cluster,
        node.name,
        {"metadata": {"annotations": {CORDONED_BY: None}}, "spec": {"unschedulable": None}},
    )


def label(cluster: Cluster, node: str, labels: Mapping[str, str]) -> None:
    """Give a node labels, whatever others it has."""
    _patch_node(cluster, node, {"metadata": {"labels": dict(labels)}})


def park(cluster: Cluster, replica: str, by: str) -> None:
    """Set a replica to no pods: a pod that waits would take the node of another replica."""
    _patch_replica(cluster, replica, 0, by)


def unpark(cluster: Cluster, replica: str) -> None:
    """Let a replica have its pods again."""
    _patch_replica(cluster, replica, 1, None)


def evict(cluster: Cluster, pod: str) -> str:
    """Ask a pod to go, by the rules of its disruption budget; say why it may not at the moment."""
    name = ObjectMeta(name=pod, namespace=cluster.namespace)
    with cluster.api():
        try:
            cluster.client.create(Pod.Eviction(metadata=name), pod)
        except ApiError as error:
            if error.status.code == HTTPStatus.TOO_MANY_REQUESTS:
                return f"{pod}: its disruption budget lets it not go yet"
            if error.status.code != HTTPStatus.NOT_FOUND:
                raise
    return ""


def bury(cluster: Cluster, pod: str) -> None:
    """Remove a pod that its node will not end any more."""
    with cluster.api():
        try:
            cluster.client.delete(Pod, pod, grace_period=0)
        except ApiError as error:
            if error.status.code != HTTPStatus.NOT_FOUND:
                raise


def _patch_node(cluster: Cluster, node: str, patch: Mapping[str, object]) -> None:
    with cluster.api():
        cluster.client.patch(
            Node, node, dict(patch), patch_type=PatchType.MERGE, field_manager=MANAGER
        )


def _patch_replica(cluster: Cluster, replica: str, pods: int, by: str | None) -> None:
    patch = {"metadata": {"annotations": {PARKED: by}}, "spec": {"replicas": pods}}
    with cluster.api():
        cluster.client.patch(
            LeaderWorkerSet, replica, patch, patch_type=PatchType.MERGE, field_manager=MANAGER
        )
