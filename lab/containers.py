"""Turn a container of a manifest into a process: command, environment and mounted files.

Pure: what the process kubelet starts is decided here, from the pod and the lab's settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.errors import LabError
from lab.pods import PodView

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_LABEL_PATH = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """What to run for a pod."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    config_maps: Mapping[str, Path] = field(default_factory=dict)


def process_plan(pod: PodView, address: str, folder: Path) -> ProcessPlan:
    """Resolve a pod's main container: `address` is what its POD_IP becomes in the lab."""
    env = container_env(pod, address)
    words = [*pod.container.get("command", ()), *pod.container.get("args", ())]
    if not words:
        raise LabError(
            f"{pod.name}: its container has neither command nor args, and the lab pulls no images. "
            "Give the command in the manifest."
        )
    mounts = _mounts(pod, folder)
    argv = tuple(_on_this_machine(expand(str(word), env), mounts) for word in words)
    return ProcessPlan(argv=argv, env=env, config_maps=_config_maps(pod, folder))


def container_env(pod: PodView, address: str) -> dict[str, str]:
    """Resolve the environment as a kubelet does: in order, each value may name earlier ones."""
    env: dict[str, str] = {}
    for entry in pod.container.get("env", ()):
        source = entry.get("valueFrom")
        if source is None:
            env[entry["name"]] = expand(entry.get("value", ""), env)
        elif "fieldRef" in source:
            env[entry["name"]] = _field(pod, source["fieldRef"]["fieldPath"], address)
        # Secrets and config maps as variables: nothing that the lab runs needs one.
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: an unknown name stays, `$$` is a dollar."""

    def known(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return env.get(match.group(1), match.group(0))

    return _REFERENCE.sub(known, text)


def _field(pod: PodView, path: str, address: str) -> str:
    fixed: dict[str, str] = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.node or "",
        "spec.serviceAccountName": pod.spec.get("serviceAccountName", "default"),
        "status.podIP": address,
        "status.hostIP": address,
    }
    if path in fixed:
        return fixed[path]
    if match := _LABEL_PATH.fullmatch(path):
        source = pod.labels if match.group(1) == "labels" else pod.annotations
        return source.get(match.group(2), "")
    raise LabError(f"{pod.name}: fieldRef {path}: not known in the lab. Use a plain value.")


def _volume_folder(folder: Path, volume: str) -> Path:
    return folder / "volumes" / volume


def _mounts(pod: PodView, folder: Path) -> dict[str, Path]:
    return {
        mount["mountPath"].rstrip("/"): _volume_folder(folder, mount["name"])
        for mount in pod.container.get("volumeMounts", ())
    }


def _config_maps(pod: PodView, folder: Path) -> dict[str, Path]:
    volumes: list[Mapping[str, Any]] = pod.spec.get("volumes", [])
    return {
        volume["configMap"]["name"]: _volume_folder(folder, volume["name"])
        for volume in volumes
        if "configMap" in volume
    }


def _on_this_machine(word: str, mounts: Mapping[str, Path]) -> str:
    for mount_path, path in mounts.items():
        if word == mount_path or word.startswith(mount_path + "/"):
            return str(path) + word[len(mount_path) :]
    return word
