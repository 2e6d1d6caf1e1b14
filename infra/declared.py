"""Say what Pulumi is told of a rendered object: its type, its name in the stack, its inputs."""

from __future__ import annotations

import copy

from infra.render import KubeObject

# Pulumi would wait ten minutes for what takes an hour to load, and could not be stopped in
# between; readiness is watched by the rollout. A headless Service waits for its endpoints.
NOT_AWAITED = frozenset(
    {"DaemonSet", "Deployment", "DynamoGraphDeployment", "LeaderWorkerSet", "Service"}
)


def type_token(item: KubeObject) -> str:
    """Name an object's type as the Kubernetes provider does."""
    group, slash, version = str(item["apiVersion"]).rpartition("/")
    return f"kubernetes:{group if slash else 'core'}/{version}:{item['kind']}"


def logical_name(item: KubeObject) -> str:
    """Name a resource after its object: `Kind/namespace/name`, or `Kind/name`."""
    metadata = item["metadata"]
    parts = [item["kind"], metadata.get("namespace"), metadata["name"]]
    return "/".join(part for part in parts if part)


def inputs_of(item: KubeObject) -> KubeObject:
    """Give the inputs of an object's resource."""
    if item["kind"] not in NOT_AWAITED:
        return item
    inputs = copy.copy(item)
    annotations = {**item["metadata"].get("annotations", {}), "pulumi.com/skipAwait": "true"}
    inputs["metadata"] = {**item["metadata"], "annotations": annotations}
    return inputs
