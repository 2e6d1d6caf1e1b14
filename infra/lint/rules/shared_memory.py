"""How much memory the ranks of a node share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from infra.lint.concern import concerns
from infra.lint.pods import PodTemplate, Workload, named, sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path in a container
LEAST_BYTES = 64 * 1024**3
_OPERATOR_DEFAULT = "8Gi"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]i|[kMGTPE])?")
_UNITS: Mapping[str, int] = {
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", start=1)},
    **{unit: 1000**power for power, unit in enumerate("kMGTPE", start=1)},
}


def quantity_bytes(text: object) -> float | None:
    """Read a Kubernetes quantity such as `200Gi`; None for what is none."""
    found = _QUANTITY.fullmatch(str(text))
    return float(found[1]) * _UNITS.get(found[2] or "", 1) if found else None


def _too_small(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        if not any(command.engine for command in scene.commands_of(workload)):
            continue
        if not concerns(scene, workload):
            continue
        if workload.component_type is not None:
            yield from _of_component(workload)
        else:
            for template in workload.templates:
                yield from _of_pod(template)


def _of_component(workload: Workload) -> Iterator[Spot]:
    path = (*workload.path, "sharedMemorySize")
    stated = workload.manifest.at(*path)
    size = _OPERATOR_DEFAULT if stated is None else stated
    found = quantity_bytes(size)
    if found is not None and found < LEAST_BYTES:
        yield Spot(workload.manifest, path, f"the shared memory has {size}")


def _of_pod(template: PodTemplate) -> Iterator[Spot]:
    volumes = {
        volume.name: volume.data.get("emptyDir") for volume in named(template.spec.get("volumes"))
    }
    for container in template.containers():
        mounts = [item for item in sequence(container.data.get("volumeMounts")) if _is_shm(item)]
        if not mounts and not template.spec.get("hostIPC"):
            yield Spot(
                template.manifest,
                container.path,
                "the shared memory has 64 MiB, as of any container",
            )
        for mount in mounts:
            volume = volumes.get(str(mount.get("name")))
            limit = volume.get("sizeLimit") if isinstance(volume, dict) else None
            found = None if limit is None else quantity_bytes(limit)
            if found is not None and found < LEAST_BYTES:
                yield Spot(template.manifest, container.path, f"the shared memory has {limit}")


def _is_shm(mount: object) -> bool:
    return isinstance(mount, dict) and str(mount.get("mountPath")).rstrip("/") == SHARED_MEMORY


RULES: tuple[Rule, ...] = (
    Rule(
        id="K017",
        severity="warning",
        title="The ranks of a node share at least 64 GiB of memory",
        reason="NCCL, the loaders and multimodal inputs keep buffers there; a full one ends the "
        "engine with a bus error.",
        source="https://github.com/ai-dynamo/dynamo/tree/main/recipes/kimi-k3 (64 to 200 GiB)",
        fix="Mount an emptyDir with medium Memory at /dev/shm (sharedMemorySize of a component).",
        check=_too_small,
    ),
)
