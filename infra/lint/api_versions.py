"""Know which of Kubernetes' own kinds a version of it serves, and under which name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from infra.lint.core_schema import (
    Kind,
    Schemas,
    Version,
    group_of,
    packaged_versions,
    versions_with,
)
from infra.lint.schema_faults import nearest

# Removed before the oldest version that we have schemas of.
# Source: https://kubernetes.io/docs/reference/using-api/deprecation-guide/
_REMOVED: Mapping[Version, Mapping[str, frozenset[str]]] = {
    (1, 16): {
        "extensions/v1beta1": frozenset(
            {"DaemonSet", "Deployment", "NetworkPolicy", "PodSecurityPolicy", "ReplicaSet"}
        ),
        "apps/v1beta1": frozenset({"Deployment", "StatefulSet"}),
        "apps/v1beta2": frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    },
    (1, 22): {
        "extensions/v1beta1": frozenset({"Ingress"}),
        "networking.k8s.io/v1beta1": frozenset({"Ingress", "IngressClass"}),
        "rbac.authorization.k8s.io/v1beta1": frozenset(
            {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
        ),
        "apiextensions.k8s.io/v1beta1": frozenset({"CustomResourceDefinition"}),
        "apiregistration.k8s.io/v1beta1": frozenset({"APIService"}),
        "admissionregistration.k8s.io/v1beta1": frozenset(
            {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
        ),
        "scheduling.k8s.io/v1beta1": frozenset({"PriorityClass"}),
        "coordination.k8s.io/v1beta1": frozenset({"Lease"}),
        "storage.k8s.io/v1beta1": frozenset(
            {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"}
        ),
    },
    (1, 25): {
        "autoscaling/v2beta1": frozenset({"HorizontalPodAutoscaler"}),
        "batch/v1beta1": frozenset({"CronJob"}),
        "discovery.k8s.io/v1beta1": frozenset({"EndpointSlice"}),
        "events.k8s.io/v1beta1": frozenset({"Event"}),
        "node.k8s.io/v1beta1": frozenset({"RuntimeClass"}),
        "policy/v1beta1": frozenset({"PodDisruptionBudget", "PodSecurityPolicy"}),
    },
}
_OLD_GROUPS = frozenset({"extensions"})
# Betas that came before 1.24 stayed on by default; later ones do not. Source: KEP-3136.
_ON_BETAS: frozenset[Kind] = frozenset(
    {
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
        ("storage.k8s.io/v1beta1", "CSIStorageCapacity"),
        *(
            (f"flowcontrol.apiserver.k8s.io/v1beta{number}", kind)
            for number in (1, 2, 3)
            for kind in ("FlowSchema", "PriorityLevelConfiguration")
        ),
    }
)
_STABILITY = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


class Refusal(NamedTuple):
    """Why a cluster has no such kind, and what to write."""

    what: str
    fix: str


def is_own(schemas: Schemas, api_version: str) -> bool:
    """Say whether a group is one of Kubernetes itself, which nobody else may add to."""
    return group_of(api_version) in schemas.groups | _OLD_GROUPS


def refusal(schemas: Schemas, kind: Kind, cluster: Version) -> Refusal | None:
    """Say why a kind of Kubernetes' own is not served by a cluster; None when we cannot know."""
    if cluster < packaged_versions()[0]:
        return None
    api_version, name = kind
    instead = _replacement(schemas, kind)
    write = f"Write apiVersion: {instead}" if instead else None
    known = versions_with(kind)
    if known and known[0] > cluster:
        what = f"{api_version} {name} comes with Kubernetes {_text(known[0])}"
        update = f"Update the cluster, which has {_text(cluster)}"
        return Refusal(what, f"{write}, or update the cluster." if write else f"{update}.")
    if gone := _gone_since(kind, known):
        what = f"{api_version} {name} is gone since Kubernetes {_text(gone)}"
        return Refusal(what, f"{write}." if write else "Remove it: nothing replaces it.")
    if cluster > packaged_versions()[-1]:
        return None  # it may be new
    near = nearest(name, _names(schemas, group_of(api_version)))
    fix = f"{write}." if write else "Correct apiVersion and kind."
    return Refusal(
        f"Kubernetes has no {name} in {api_version}",
        f"Did you mean {near}?" if near and near != name else fix,
    )


def off_by_default(kind: Kind) -> bool:
    """Say whether a cluster serves a kind only when it was told to."""
    found = _STABILITY.fullmatch(kind[0].rpartition("/")[2])
    return bool(found and found[2]) and kind not in _ON_BETAS


def _gone_since(kind: Kind, known: tuple[Version, ...]) -> Version | None:
    api_version, name = kind
    if known:
        return next((item for item in packaged_versions() if item > known[-1]), None)
    removed = (when for when, kinds in _REMOVED.items() if name in kinds.get(api_version, ()))
    return next(removed, None)


def _replacement(schemas: Schemas, kind: Kind) -> str | None:
    """Return the best apiVersion under which the cluster has a kind of the same name."""
    found = [api_version for api_version, name in schemas.core if name == kind[1]]
    own = [item for item in found if group_of(item) == group_of(kind[0])]
    return max(own or found, key=_rank, default=None)


def _rank(api_version: str) -> tuple[int, int, int]:
    found = _STABILITY.fullmatch(api_version.rpartition("/")[2])
    if found is None:
        return (0, 0, 0)
    stability = {None: 3, "beta": 2, "alpha": 1}[found[2]]
    return (stability, int(found[1]), int(found[3] or 0))


def _names(schemas: Schemas, group: str) -> set[str]:
    return {name for api_version, name in schemas.core if group_of(api_version) == group}


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
