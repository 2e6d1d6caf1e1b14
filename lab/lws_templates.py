"""Build the two StatefulSets of a LeaderWorkerSet group. Pure."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lab.pods import LWS_NAME_LABEL, WORKER_INDEX_LABEL, PodView

GROUP = "leaderworkerset.x-k8s.io"
PREFIX = "leaderworkerset.sigs.k8s.io/"
REVISION_LABEL = PREFIX + "template-revision-hash"
# Of a group's second pod, and only of the double: the leader that it was made for. Names repeat.
LEADER_UID = "lab.k3fleet.io/leader-uid"

Object = dict[str, Any]


def leader_set(lws: Object, revision: str) -> Object:
    """Build the StatefulSet of a group's leader pod."""
    name = lws["metadata"]["name"]
    template = lws["spec"]["leaderWorkerTemplate"]
    size = template.get("size", 1)
    labels = _group_labels(name, revision) | {WORKER_INDEX_LABEL: "0"}
    pod = _pod_template(
        template.get("leaderTemplate") or template["workerTemplate"],
        labels,
        {PREFIX + "size": str(size)},
        _group_env(lws, size, index="0"),
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": lws["metadata"]["namespace"],
            "labels": {LWS_NAME_LABEL: name, REVISION_LABEL: revision},
            "ownerReferences": [_owner(lws["metadata"], f"{GROUP}/v1", "LeaderWorkerSet")],
        },
        "spec": {
            "replicas": lws["spec"].get("replicas", 1),
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {LWS_NAME_LABEL: name, WORKER_INDEX_LABEL: "0"}},
            "template": pod,
        },
    }


def worker_set(lws: Object, leader: PodView) -> Object:
    """Build the StatefulSet of a group's other pods, owned by the leader pod."""
    name = lws["metadata"]["name"]
    template = lws["spec"]["leaderWorkerTemplate"]
    size = template.get("size", 1)
    labels = _group_labels(name, leader.labels[REVISION_LABEL]) | {WORKER_INDEX_LABEL: "1"}
    pod = _pod_template(
        template["workerTemplate"],
        labels,
        {
            PREFIX + "size": str(size),
            PREFIX + "leader-name": leader.name,
            LEADER_UID: leader.uid,
        },
        _group_env(lws, size, index="1"),
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": leader.name,
            "namespace": leader.namespace,
            "labels": labels,
            "ownerReferences": [
                _owner({"name": leader.name, "uid": leader.uid}, "v1", "Pod"),
            ],
        },
        "spec": {
            "replicas": size - 1,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {"matchLabels": {LWS_NAME_LABEL: name, WORKER_INDEX_LABEL: "1"}},
            "template": pod,
        },
    }


def _group_labels(name: str, revision: str) -> dict[str, str]:
    return {LWS_NAME_LABEL: name, PREFIX + "group-index": "0", REVISION_LABEL: revision}


def _group_env(lws: Object, size: int, *, index: str) -> list[Object]:
    meta = lws["metadata"]
    address = f"{meta['name']}-0.{meta['name']}.{meta['namespace']}"
    return [
        {"name": "LWS_LEADER_ADDRESS", "value": address},
        {"name": "LWS_GROUP_SIZE", "value": str(size)},
        {"name": "LWS_WORKER_INDEX", "value": index},
    ]


def _pod_template(
    template: Mapping[str, Any],
    labels: dict[str, str],
    annotations: dict[str, str],
    env: list[Object],
) -> Object:
    pod: Object = copy.deepcopy(dict(template))
    meta = pod.setdefault("metadata", {})
    meta["labels"] = {**meta.get("labels", {}), **labels}
    meta["annotations"] = {**meta.get("annotations", {}), **annotations}
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        container["env"] = [*env, *container.get("env", ())]
    return pod


def _owner(meta: Mapping[str, Any], api_version: str, kind: str) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def digest(value: object) -> str:
    """Name a template by its content."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
