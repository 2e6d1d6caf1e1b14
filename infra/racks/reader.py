"""Read the racks of a region from its API server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Node

from fleet.errors import ApplyError
from fleet.racks.seen import (
    CLIQUE_LABEL,
    HEALTH_LABEL,
    RACK_LABEL,
    TRAY_LABEL,
    NodeSeen,
    RackSeen,
    Seat,
    Standing,
    in_tray_order,
)
from infra.rollout.checks import EnginePod
from infra.rollout.cluster import PARKED, RELEASE_LABEL, Cluster
from infra.staging import LABEL_PREFIX, LABEL_VALUE

GPU = "nvidia.com/gpu"
# GPU feature discovery puts this on every node that has one, also while its GPUs are broken.
GPU_PRESENT = "nvidia.com/gpu.present"
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"
CORDONED_BY = "k3fleet.io/cordoned-by"  # annotation of a node
_MAX_TRAY_DIGITS = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRacks:
    """All racks of a region, and its GPU nodes that belong to none."""

    racks: tuple[RackSeen, ...]
    loose: tuple[NodeSeen, ...]

    def rack(self, name: str) -> RackSeen | None:
        """Find a rack."""
        return next((rack for rack in self.racks if rack.id == name), None)


def read_racks(cluster: Cluster) -> RegionRacks:
    """Read nodes, replicas' objects, pods and routing, in this order.

    Whatever changes in between shows as a pod that is on its way, and never as one that serves.
    """
    nodes = read_nodes(cluster)
    workloads = _unless_unknown(cluster.workloads) or {}
    pods = cluster.engines()
    routed, workers = cluster.in_routing(), _unless_unknown(cluster.workers)
    serving = routed if workers is None else routed & workers.keys()
    leaders = {pod.replica for pod in pods if pod.leader and pod.name in serving and pod.ready}
    return racks_of(cluster.region, nodes, workloads, pods, serving=leaders)


def read_nodes(cluster: Cluster) -> tuple[NodeSeen, ...]:
    """Read the nodes that have GPUs, or carry a rack's label."""
    with cluster.api():
        found = [_plain(node) for node in cluster.client.list(Node)]
    return tuple(node_seen(node) for node in found if _concerns(node))


def racks_of(
    region: str,
    nodes: Iterable[NodeSeen],
    workloads: Mapping[str, Mapping[str, Any]],
    pods: Iterable[EnginePod],
    *,
    serving: Collection[str],
) -> RegionRacks:
    """Put together what was read; `serving` names the replicas that frontends may choose."""
    nodes, pods = tuple(nodes), tuple(pods)
    ids = {node.rack for node in nodes if node.rack}
    objects = {
        name: str(item["metadata"].get("labels", {}).get(RACK_LABEL, ""))
        for name, item in workloads.items()
    }
    racks = []
    for rack in sorted({*ids, *objects.values(), *(pod.rack for pod in pods)} - {""}):
        own = {name: workloads[name] for name, where in objects.items() if where == rack}
        racks.append(
            RackSeen(
                id=rack,
                region=region,
                nodes=in_tray_order(node for node in nodes if node.rack == rack),
                seats=tuple(_seat(pod, serving) for pod in pods if pod.rack == rack),
                assigned={name: _release(item) for name, item in own.items()},
                parked=frozenset(name for name, item in own.items() if is_parked(item)),
            )
        )
    return RegionRacks(racks=tuple(racks), loose=tuple(n for n in nodes if not n.rack))


def is_parked(workload: Mapping[str, Any]) -> bool:
    """Say whether a drain has set a replica to no pods."""
    return PARKED in (workload["metadata"].get("annotations") or {})


def node_seen(raw: Mapping[str, Any]) -> NodeSeen:
    """Reduce an API object to what is looked at; what is not as usual counts as absent."""
    meta, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    labels: Mapping[str, str] = meta.get("labels") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    info = status.get("nodeInfo") or {}
    return NodeSeen(
        name=meta["name"],
        rack=labels.get(RACK_LABEL, ""),
        tray=_tray(labels.get(TRAY_LABEL, "")),
        clique=labels.get(CLIQUE_LABEL, ""),
        arch=labels.get("kubernetes.io/arch", ""),
        gpus=_count((status.get("allocatable") or {}).get(GPU, "0")),
        kernel=info.get("kernelVersion", ""),
        driver=labels.get(DRIVER_LABEL, ""),
        ready=conditions.get("Ready") == "True",
        cordoned=bool(spec.get("unschedulable")),
        cordoned_by=(meta.get("annotations") or {}).get(CORDONED_BY, ""),
        health=labels.get(HEALTH_LABEL, ""),
        conditions=tuple(
            sorted(kind for kind, held in conditions.items() if kind != "Ready" and held == "True")
        ),
        weights=frozenset(
            key.removeprefix(LABEL_PREFIX)
            for key, value in labels.items()
            if key.startswith(LABEL_PREFIX) and value == LABEL_VALUE
        ),
        provider_id=spec.get("providerID", ""),
        labels=dict(labels),
    )


def _unless_unknown(read: Callable[[], T]) -> T | None:
    """Read objects; None where the API server does not know the kind.

    Racks are looked at before anything of ours is there, and not every engine registers.
    """
    try:
        return read()
    except ApplyError as error:
        cause = error.__cause__
        if isinstance(cause, ApiError) and cause.status.code == HTTPStatus.NOT_FOUND:
            return None
        raise


def _concerns(raw: Mapping[str, Any]) -> bool:
    labels = raw["metadata"].get("labels") or {}
    gpus = (raw.get("status", {}).get("allocatable") or {}).get(GPU, "0")
    return RACK_LABEL in labels or labels.get(GPU_PRESENT) == "true" or gpus != "0"


def _seat(pod: EnginePod, serving: Collection[str]) -> Seat:
    return Seat(
        pod=pod.name,
        replica=pod.replica,
        release=pod.release,
        leader=pod.leader,
        standing=_standing(pod, serving),
        node=pod.node,
    )


def _standing(pod: EnginePod, serving: Collection[str]) -> Standing:
    if pod.deleting:
        return "ends"
    if not pod.ready:
        return "not ready"
    return "serves" if pod.replica in serving else "out of routing"


def _release(workload: Mapping[str, Any]) -> str:
    return str((workload["metadata"].get("labels") or {}).get(RELEASE_LABEL, ""))


def _tray(text: str) -> int | None:
    return _count(text) if text and _is_number(text) else None


def _count(text: object) -> int:
    return int(str(text)) if _is_number(str(text)) else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_TRAY_DIGITS


def _plain(item: object) -> dict[str, Any]:
    data: dict[str, Any] = item.to_dict()  # type: ignore[attr-defined]
    return data
