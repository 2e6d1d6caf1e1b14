"""Take a resource of Pulumi's Kubernetes provider as the object that it is."""

from __future__ import annotations

from typing import Any

from infra.lint.manifest import Manifest
from infra.policy_pack.resource import Resource

_PREFIX = "kubernetes:"
_EXTENSION = "x_kubernetes_"
# Not objects of a cluster: charts, files, and changes of objects that others own.
_OTHERS = ("helm.sh/", "yaml/", "kustomize/")
_LIVE = ("status", "__inputs", "__initialApiVersion", "__fieldManager")


def _as_written(value: Any) -> Any:
    """Undo what the provider does to a definition's `x-kubernetes-…`: its outputs say `x_…`."""
    if isinstance(value, dict):
        return {_name(key): _as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    return value


def _name(key: str) -> str:
    return key.replace("_", "-") if key.startswith(_EXTENSION) else key


def manifest_of(resource: Resource) -> Manifest | None:
    """Give the object; None for what is no object of Kubernetes."""
    group, _, kind = resource.type.removeprefix(_PREFIX).rpartition(":")
    if not resource.type.startswith(_PREFIX) or group.startswith(_OTHERS):
        return None
    if kind.endswith(("Patch", "List")):
        return None
    # Outputs hold what was asked for beside what the server made of it.
    data: Any = resource.props.get("__inputs") or resource.props
    core = group.removeprefix("core/")
    given = {key: _as_written(value) for key, value in data.items() if key not in _LIVE}
    return Manifest(file=resource.name, data={"apiVersion": core, "kind": kind, **given})
