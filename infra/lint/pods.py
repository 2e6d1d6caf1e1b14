"""Find the pods that an object makes, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from fleet.yaml_document import NodePath
from infra.lint.manifest import Manifest, texts
from infra.release_values import DYNAMO_VERSION

Role = Literal["leader", "worker", "each"]  # "each": rank 0 and the others are made of one template

_PLAIN: Mapping[str, NodePath] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Container:
    """One container of a pod template. Every part of it may be missing or of a wrong type."""

    manifest: Manifest
    path: NodePath
    data: Mapping[str, Any]
    init: bool
    annotations: Mapping[str, str]  # of its pod

    @property
    def name(self) -> str:
        """Return the name, empty when there is none."""
        return str(self.data.get("name") or "")

    @property
    def image(self) -> str:
        """Return the image reference, empty when there is none."""
        found = self.data.get("image")
        return found if isinstance(found, str) else ""

    def words(self, key: Literal["command", "args"]) -> tuple[str, ...]:
        """Return `command` or `args` as text; what is neither text nor number is left out."""
        return tuple(str(word) for word in sequence(self.data.get(key)) if _is_scalar(word))

    @property
    def env(self) -> Mapping[str, str | None]:
        """Return the variables; None stands for a value that comes from elsewhere."""
        return {name: value for name, value, _ in self.env_entries()}

    def env_entries(self) -> Iterator[tuple[str, str | None, NodePath]]:
        """Yield (name, value, path) of each variable."""
        for index, name, item in named(self.data.get("env")):
            value = item.get("value", None if "valueFrom" in item else "")
            text = str(value) if _is_scalar(value) else None
            yield name, text, (*self.path, "env", index)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PodTemplate:
    """What an object makes pods of. `path` leads to the template, `spec` is below it."""

    manifest: Manifest
    path: NodePath
    role: Role
    spec: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def spec_path(self) -> NodePath:
        """Return where the pod's spec stands."""
        return (*self.path, "spec")

    def node_values(self, key: str) -> tuple[str, ...]:
        """Return the values of a node label that the pod insists on; empty: it does not care."""
        selector = self.spec.get("nodeSelector")
        if isinstance(selector, dict) and key in selector:
            return (str(selector[key]),)
        required = self.manifest.at(
            *self.spec_path,
            *("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
            "nodeSelectorTerms",
        )
        terms = [item for item in sequence(required) if isinstance(item, dict)]
        return tuple(
            str(value)
            for term in terms
            for item in sequence(term.get("matchExpressions"))
            if isinstance(item, dict) and item.get("key") == key and item.get("operator") == "In"
            for value in sequence(item.get("values"))
        )

    def containers(self, *, init: bool = False) -> Iterator[Container]:
        """Yield the containers, or the init containers."""
        key = "initContainers" if init else "containers"
        for index, item in enumerate(sequence(self.spec.get(key))):
            if isinstance(item, dict):
                yield Container(
                    manifest=self.manifest,
                    path=(*self.spec_path, key, index),
                    data=item,
                    init=init,
                    annotations=self.annotations,
                )

    def all_containers(self) -> Iterator[Container]:
        """Yield init containers, then containers."""
        yield from self.containers(init=True)
        yield from self.containers()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Pods that are made together: a LeaderWorkerSet, one component of a graph, a Deployment.

    `nodes` is the number of pods of one copy, `replicas` the number of copies
    (None: not said, or decided by something else).
    """

    manifest: Manifest
    path: NodePath  # of the component; () for other kinds
    name: str
    component_type: str | None  # of a DynamoGraphDeployment's component: worker, frontend, …
    nodes: int
    replicas: int | None
    templates: tuple[PodTemplate, ...]

    @property
    def is_group(self) -> bool:
        """Say whether one copy spans several nodes."""
        return self.nodes > 1


def workloads(manifest: Manifest) -> Iterator[Workload]:
    """Yield what makes pods in an object; nothing for kinds that make none."""
    if manifest.kind == "LeaderWorkerSet":
        yield _leader_worker_set(manifest)
    elif manifest.kind == "DynamoGraphDeployment":
        yield from _graph(manifest)
    elif manifest.kind in _PLAIN:
        template = _template(manifest, _PLAIN[manifest.kind], "each")
        yield Workload(
            manifest=manifest,
            path=(),
            name=manifest.name,
            component_type=None,
            nodes=1,
            replicas=whole(manifest.at("spec", "replicas")),
            templates=(template,) if template else (),
        )


def _leader_worker_set(manifest: Manifest) -> Workload:
    base: NodePath = ("spec", "leaderWorkerTemplate")
    leader = _template(manifest, (*base, "leaderTemplate"), "leader")
    worker = _template(manifest, (*base, "workerTemplate"), "worker" if leader else "each")
    return Workload(
        manifest=manifest,
        path=(),
        name=manifest.name,
        component_type=None,
        nodes=whole(manifest.at(*base, "size")) or 1,
        replicas=whole(manifest.at("spec", "replicas")),
        templates=tuple(template for template in (leader, worker) if template),
    )


def _graph(manifest: Manifest) -> Iterator[Workload]:
    for index, item in enumerate(sequence(manifest.at("spec", "components"))):
        if not isinstance(item, dict):
            continue
        path: NodePath = ("spec", "components", index)
        multinode = item.get("multinode")
        nodes = whole(multinode.get("nodeCount", 2)) if isinstance(multinode, dict) else 1
        template = _template(manifest, (*path, "podTemplate"), "each")
        kind = item.get("type")
        yield Workload(
            manifest=manifest,
            path=path,
            name=str(item.get("name") or ""),
            component_type=kind if isinstance(kind, str) else None,
            nodes=nodes or 1,
            replicas=whole(item.get("replicas", 1)),
            templates=(template,) if template else (),
        )


def _template(manifest: Manifest, path: NodePath, role: Role) -> PodTemplate | None:
    found = manifest.at(*path)
    if not isinstance(found, dict) or not isinstance(found.get("spec"), dict):
        return None
    override = manifest.at(*path[:-1], "runtimeVersionOverride")  # of a graph's component
    runtime = {DYNAMO_VERSION: override} if isinstance(override, str) else {}
    return PodTemplate(
        manifest=manifest,
        path=path,
        role=role,
        spec=found["spec"],
        labels=texts(manifest.at(*path, "metadata", "labels")),
        annotations={**texts(manifest.at(*path, "metadata", "annotations")), **runtime},
    )


class Named(NamedTuple):
    """One item of a list whose items have names."""

    place: int
    name: str
    data: Mapping[str, Any]


def named(value: object) -> Iterator[Named]:
    """Yield the items that have a name; one without is for the schema's rules."""
    for index, item in enumerate(sequence(value)):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield Named(index, item["name"], item)


def sequence(value: object) -> list[Any]:
    """Take a list; what is none counts as empty."""
    return value if isinstance(value, list) else []


def whole(value: object) -> int | None:
    """Take a whole number; what is none counts as not given."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float)
