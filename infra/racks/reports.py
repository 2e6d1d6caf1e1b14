"""Collect what nodes say about themselves, and which DRA driver runs on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Pod

from fleet.errors import ConfigError, Problem
from fleet.racks.preflight import Evidence
from fleet.racks.report import NodeReport, read_report
from fleet.yaml_document import MAX_FILE_BYTES, file_content
from infra.node_report import APP
from infra.rollout.cluster import Cluster

# The kubelet plugin of the DRA driver, before and after its charts were renamed (v0.5).
DRA_LABELS = ("nvidia-dra-driver-gpu-component", "dra-driver-nvidia-gpu-component")
DRA_PLUGIN = "kubelet-plugin"
MAX_FILES = 10_000  # 500 racks
_TAG = re.compile(r":(v?[0-9][A-Za-z0-9._-]{0,63})(?:@|$)")


def collect(cluster: Cluster, reports_dir: Path | None) -> Evidence:
    """Take reports from a folder, or from the pods of the region; the driver from its pods."""
    if reports_dir is not None:
        reports, missing = from_folder(reports_dir)
    else:
        reports, missing = from_pods(_pods(cluster, APP))
    return Evidence(reports=reports, missing=missing, dra=dra_versions(cluster))


def from_pods(
    pods: Collection[Mapping[str, Any]],
) -> tuple[dict[str, NodeReport], dict[str, str]]:
    """Read the newest report of each node's pod; else say why there is none.

    A pod that is not Ready tells nothing: nobody has looked since it was.
    """
    reports: dict[str, NodeReport] = {}
    missing: dict[str, str] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node:
            continue
        found = _newest(pod, node)
        if isinstance(found, NodeReport):
            reports[node] = found
            missing.pop(node, None)
        elif node not in reports:
            missing[node] = found
    return reports, missing


def from_folder(folder: Path) -> tuple[dict[str, NodeReport], dict[str, str]]:
    """Read the files `*.json` of a folder; one that is no report is named by its file."""
    files = sorted(folder.glob("*.json"))
    if not files or len(files) > MAX_FILES:
        raise ConfigError(
            f"{folder}: holds {len(files)} files *.json, expected 1 to {MAX_FILES}. Give the "
            "folder with what node-report.py printed, one file a node."
        )
    reports: dict[str, NodeReport] = {}
    missing: dict[str, str] = {}
    for file in files:
        found = _file(file)
        if isinstance(found, str):
            missing[file.stem] = found
        elif found.node in reports:
            raise ConfigError(
                f"{file}: a second report of node {found.node}. Keep the newer one of the two."
            )
        else:
            reports[found.node] = found
    return reports, missing


def dra_versions(cluster: Cluster) -> dict[str, str]:
    """Say which version of the DRA driver each node runs, by the tag of its image."""
    found: dict[str, str] = {}
    for label in DRA_LABELS:
        for pod in _pods(cluster, DRA_PLUGIN, label=label, namespace="*"):
            node = pod["spec"].get("nodeName")
            images = [container.get("image") or "" for container in pod["spec"]["containers"]]
            tags = [tag[1] for image in images if (tag := _TAG.search(image))]
            if node and tags:
                found[node] = tags[0]
    return found


def _newest(pod: Mapping[str, Any], node: str) -> NodeReport | str:
    status = pod.get("status") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return f"its pod is not Ready{_waiting(status)}"
    words = sorted(_last_words(status), reverse=True)
    return read_report(words[0][1], node) if words else "its pod has said nothing"


def _last_words(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give when each container ended, and what it said."""
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(key) or ():
            for state in ("state", "lastState"):
                ended = (container.get(state) or {}).get("terminated") or {}
                if ended.get("message"):
                    yield str(ended.get("finishedAt", "")), str(ended["message"])


def _waiting(status: Mapping[str, Any]) -> str:
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(key) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if reason := waiting.get("reason"):
                return f" ({reason})"
    return ""


def _file(file: Path) -> NodeReport | str:
    content = file_content(file, MAX_FILE_BYTES, "Give what node-report.py printed")
    return content.what if isinstance(content, Problem) else read_report(content.strip())


def _pods(
    cluster: Cluster, value: str, *, label: str = "app.kubernetes.io/name", namespace: str = ""
) -> list[dict[str, Any]]:
    """List pods; those that this user may not see are not there."""
    with cluster.api():
        try:
            found = cluster.client.list(
                Pod, labels={label: value}, namespace=namespace or cluster.namespace
            )
            return [pod.to_dict() for pod in found]
        except ApiError as error:
            if error.status.code == HTTPStatus.FORBIDDEN:
                return []
            raise
