"""What a schema lets through and the API server, or a node, refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleet.yaml_document import NodePath
from infra.lint.gpus import GPU
from infra.lint.manifest import Manifest
from infra.lint.pods import Container, sequence, whole
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

# apimachinery/pkg/util/validation: IsValidLabelValue.
_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
# distribution/reference: a name of small letters, a tag, a digest.
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[\w][\w.-]{0,127})?(?:@[A-Za-z][\w+.-]*:[0-9A-Fa-f]+)?",
    re.ASCII,
)
_PLACEHOLDER = re.compile(r"[<>${}]")  # for a person or a program to fill in
_MOST = 2**31 - 1  # int32
_COUNTS: tuple[NodePath, ...] = (
    ("spec", "replicas"),
    ("spec", "minReplicas"),
    ("spec", "maxReplicas"),
    ("spec", "parallelism"),
    ("spec", "completions"),
)


def _forms(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.manifests:
        yield from _labels(manifest, ("metadata", "labels"))
        for path in _COUNTS:
            count = whole(manifest.at(*path))
            if count is not None and count > _MOST:
                yield Spot(manifest, path, f"{count} is more than {_MOST:,}")
    for template in scene.templates:
        if template.path:
            yield from _labels(template.manifest, (*template.path, "metadata", "labels"))
        for container in template.all_containers():
            yield from _of_container(container)


def _labels(manifest: Manifest, path: NodePath) -> Iterator[Spot]:
    labels = manifest.at(*path)
    for key, value in labels.items() if isinstance(labels, dict) else ():
        if isinstance(value, str) and not _LABEL.fullmatch(value):
            yield Spot(manifest, (*path, key), f"{_short(value)} is no value of a label")


def _of_container(container: Container) -> Iterator[Spot]:
    for index, item in enumerate(sequence(container.data.get("env"))):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and (not name or "=" in name):
            path = (*container.path, "env", index, "name")
            yield Spot(container.manifest, path, f"{_short(name)} is no name of a variable")
    image = container.image
    if image and not _PLACEHOLDER.search(image) and not _IMAGE.fullmatch(image):
        path = (*container.path, "image")
        yield Spot(container.manifest, path, f"{_short(image)} is no reference of an image")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


def _limits(scene: Scene) -> Iterator[Spot]:
    for template in scene.templates:
        for container in template.all_containers():
            resources = container.data.get("resources")
            parts = resources if isinstance(resources, dict) else {}
            asked, most = parts.get("requests"), parts.get("limits")
            if not isinstance(asked, dict) or asked.get(GPU) is None:
                continue
            limit = most.get(GPU) if isinstance(most, dict) else None
            if str(limit) != str(asked[GPU]):
                path = (*container.path, "resources", "requests", GPU)
                what = f"{asked[GPU]} GPUs are requested, and {limit or 'none'} in the limits"
                yield Spot(template.manifest, path, what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="S005",
        severity="error",
        title="Labels, variables, images and counts have the form that Kubernetes takes",
        reason="The schema lets them through; the API server refuses the object, or the node the "
        "image.",
        source="https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (and "
        "the validation of each field)",
        fix="Correct it.",
        check=_forms,
    ),
    Rule(
        id="K028",
        severity="error",
        title="GPUs stand in the limits",
        reason="The API server refuses pods whose requests of an extended resource differ from "
        "the limits.",
        source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        fix="Give the same number in the limits; the requests may be left out.",
        check=_limits,
    ),
)
