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
from lab.volumes import Mount, Volume, volumes_of

# What a container sees as its root, in its pod's folder: processes here have none of their own.
ROOT = "root"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_LABEL_PATH = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """What to run for a pod."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[Mount, ...] = ()
    folders: tuple[Path, ...] = ()  # what stands for empty volumes


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pod runs on this machine."""

    address: str  # what its POD_IP becomes
    folder: Path
    volumes: Mapping[str, Path] = field(default_factory=dict)  # those that lie elsewhere
    env: Mapping[str, str] = field(default_factory=dict)  # takes the place of what is rendered


def process_plan(pod: PodView, place: Place) -> ProcessPlan:
    """Resolve a pod's main container."""
    env = container_env(pod, place)
    words = [*pod.container.get("command", ()), *pod.container.get("args", ())]
    if not words:
        raise LabError(
            f"{pod.name}: its container has neither command nor args, and the lab pulls no images. "
            "Give the command in the manifest."
        )
    mounts = [_mount(mount, pod, place) for mount in pod.container.get("volumeMounts", ())]
    seen = {
        mounted["mountPath"].rstrip("/"): mount.path if mount.copied else mount.source
        for mounted, mount in zip(pod.container.get("volumeMounts", ()), mounts, strict=True)
    }
    volumes: list[Mapping[str, Any]] = pod.spec.get("volumes", [])
    folders = {volume["name"]: _volume_folder(place, volume["name"]) for volume in volumes}
    return ProcessPlan(
        argv=tuple(_on_this_machine(expand(str(word), env), seen) for word in words),
        env=env,
        volumes=volumes_of(pod, folders),
        mounts=tuple(mounts),
        folders=tuple(folders[volume["name"]] for volume in volumes if "emptyDir" in volume),
    )


def _mount(mounted: Mapping[str, Any], pod: PodView, place: Place) -> Mount:
    """Say where a container sees a volume, or a part of it."""
    part = mounted.get("subPath", "")
    objects = {v["name"] for v in pod.spec.get("volumes", ()) if "configMap" in v or "secret" in v}
    return Mount(
        path=place.folder / ROOT / mounted["mountPath"].strip("/"),
        source=_volume_folder(place, mounted["name"]) / part,
        copied=bool(part) and mounted["name"] in objects,
    )


def container_env(pod: PodView, place: Place) -> dict[str, str]:
    """Resolve the environment as a kubelet does: in order, each value may name earlier ones."""
    env: dict[str, str] = {}
    for entry in pod.container.get("env", ()):
        source = entry.get("valueFrom")
        if entry["name"] in place.env:
            env[entry["name"]] = place.env[entry["name"]]
        elif source is None:
            env[entry["name"]] = expand(entry.get("value", ""), env)
        elif "fieldRef" in source:
            env[entry["name"]] = _field(pod, source["fieldRef"]["fieldPath"], place.address)
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


def _volume_folder(place: Place, volume: str) -> Path:
    return place.volumes.get(volume, place.folder / "volumes" / volume)


def _on_this_machine(word: str, mounts: Mapping[str, Path]) -> str:
    """Rewrite a path below a mount, alone or as the value of a flag."""
    flag, equals, value = word.partition("=")
    if not equals or word.startswith("/"):
        flag, equals, value = "", "", word
    for mount_path, path in mounts.items():
        if value == mount_path or value.startswith(mount_path + "/"):
            return f"{flag}{equals}{path}{value[len(mount_path) :]}"
    return word
