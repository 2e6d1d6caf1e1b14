"""Take a resource of Pulumi's Kubernetes provider as the object that it is."""

from __future__ import annotations

from typing import Any

from infra.lint.manifest import Manifest
from infra.policy_pack.resource import Resource

_PREFIX = "kubernetes:"
# Not objects of a cluster: charts, files, and changes of objects that others own.
_OTHERS = ("helm.sh/", "yaml/", "kustomize/")
_LIVE = ("status", "__inputs", "__initialApiVersion", "__fieldManager")


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
    given = {key: value for key, value in data.items() if key not in _LIVE}
    return Manifest(file=resource.name, data={"apiVersion": core, "kind": kind, **given})
