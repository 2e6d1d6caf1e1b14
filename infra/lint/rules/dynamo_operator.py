"""What Dynamo's operator refuses, or silently leaves out.

An API server without the operator's webhook takes these objects, and a schema
cannot say most of the rules. Read from the operator of release 1.5.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fleet.yaml_document import NodePath
from infra.lint.commands import Command
from infra.lint.images import parse_image
from infra.lint.manifest import Manifest
from infra.lint.pods import Workload, named, sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

GROVE_NAME_MAX = 45
_SEMVER = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_WORKERS = frozenset({"worker", "prefill", "decode"})
_PARALLEL = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
_SHORT = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size"}
_ANNOTATIONS = {
    "nvidia.com/vllm-distributed-executor-backend": ("mp", "ray"),
    "nvidia.com/grove-update-strategy": ("RollingRecreate", "OnDelete"),
    "nvidia.com/dynamo-kube-discovery-mode": ("pod", "container"),
}


def _components(scene: Scene) -> Iterator[tuple[Manifest, NodePath, dict[str, Any]]]:
    for manifest in scene.of("DynamoGraphDeployment"):
        for index, item in enumerate(sequence(manifest.at("spec", "components"))):
            if isinstance(item, dict):
                yield manifest, ("spec", "components", index), item


def _graphs(scene: Scene) -> Iterator[Workload]:
    return (item for item in scene.workloads if item.manifest.kind == "DynamoGraphDeployment")


def _main_container(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("DynamoGraphDeployment"):
        if manifest.at("spec", "components") in (None, []):
            yield Spot(manifest, ("spec", "components"), "the graph has no component")
    for manifest, path, _ in _components(scene):
        spec = (*path, "podTemplate", "spec", "containers")
        mains = [
            item
            for item in sequence(manifest.at(*spec))
            if isinstance(item, dict) and item.get("name") == "main"
        ]
        if not mains:
            yield Spot(manifest, (*path, "podTemplate"), "no container is named main")
        elif not mains[0].get("image"):
            yield Spot(manifest, spec, "the container main has no image")


def _runtime_version(scene: Scene) -> Iterator[Spot]:
    for manifest, path, item in _components(scene):
        if item.get("runtimeVersionOverride") is not None:
            continue
        containers = (*path, "podTemplate", "spec", "containers")
        for index, part in enumerate(sequence(manifest.at(*containers))):
            if not isinstance(part, dict) or part.get("name") != "main":
                continue
            image = part.get("image")
            if isinstance(image, str) and not _SEMVER.fullmatch(parse_image(image).tag):
                what = f"the tag of {image} is no version"
                yield Spot(manifest, (*containers, index, "image"), what)


def _not_injected(scene: Scene) -> Iterator[Spot]:
    for workload in _graphs(scene):
        for command in scene.commands_of(workload):
            if workload.is_group and command.program == "dynamo.vllm":
                yield from _unseen_flags(command)


def _unseen_flags(command: Command) -> Iterator[Spot]:
    """Find sizes that the operator does not see, so that it takes the engine for one node's."""
    if command.has("--nnodes", "--node-rank"):
        return
    for word in command.words:
        name, equals, _ = word.text.partition("=")
        full = _SHORT.get(name, name.replace("_", "-"))
        if full in _PARALLEL and (equals or name != full):
            yield Spot(command.container.manifest, word.path, f"the operator does not see {name}")
        elif full in _PARALLEL and "command" in word.path:
            what = f"the operator looks for {name} in args only"
            yield Spot(command.container.manifest, word.path, what)


def _command_given(scene: Scene) -> Iterator[Spot]:
    for workload in _graphs(scene):
        if workload.component_type not in _WORKERS:
            continue
        for template in workload.templates:
            for container in template.containers():
                given = container.words("command") or container.words("args")
                if container.name == "main" and not given:
                    what = "main has neither command nor args: an empty shell is started"
                    yield Spot(workload.manifest, container.path, what)


def _names(scene: Scene) -> Iterator[Spot]:
    for workload in _graphs(scene):
        if workload.manifest.annotations.get("nvidia.com/enable-grove") == "false":
            continue
        clique = len(workload.name) + len("-wkr") if workload.is_group else 0
        total = len(workload.manifest.name) + len(workload.name) + clique
        if total > GROVE_NAME_MAX:
            what = (
                f"the names of graph, component {workload.name} and its longest clique have "
                f"{total} characters together"
            )
            yield Spot(workload.manifest, (*workload.path, "name"), what)


def _same_names(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("DynamoGraphDeployment"):
        items = sequence(manifest.at("spec", "components"))
        names = [str(item.get("name")).lower() for item in items if isinstance(item, dict)]
        for index, item in enumerate(items):
            name = str(item.get("name")).lower() if isinstance(item, dict) else None
            if name is not None and Counter(names)[name] > 1 and names.index(name) != index:
                path = ("spec", "components", index, "name")
                yield Spot(manifest, path, f"two components are named {name}, but for capitals")


def _minimum(scene: Scene) -> Iterator[Spot]:
    for manifest, path, item in _components(scene):
        least, replicas = item.get("minAvailable"), item.get("replicas", 1)
        if isinstance(least, int) and isinstance(replicas, int) and 0 < replicas < least:
            what = f"minAvailable {least} of {replicas} replica(s)"
            yield Spot(manifest, (*path, "minAvailable"), what)


def _references(scene: Scene) -> Iterator[Spot]:
    for manifest, path, item in _components(scene):
        sidecar = item.get("frontendSidecar")
        containers = manifest.at(*path, "podTemplate", "spec", "containers")
        names = [part.name for part in named(containers)]
        if sidecar is not None and sidecar not in names:
            what = f"no container is named {sidecar}"
            yield Spot(manifest, (*path, "frontendSidecar"), what)
        if item.get("topologyConstraint") and not manifest.at("spec", "topologyConstraint"):
            what = "the graph itself has no topologyConstraint"
            yield Spot(manifest, (*path, "topologyConstraint"), what)


def _picker(scene: Scene) -> Iterator[Spot]:
    for manifest, path, item in _components(scene):
        kind = item.get("type")
        if item.get("eppConfig") is not None and kind != "epp":
            yield Spot(manifest, (*path, "eppConfig"), f"the component's type is {kind}")
        if kind != "epp":
            continue
        if item.get("multinode") is not None or item.get("replicas", 1) != 1:
            yield Spot(manifest, path, "an endpoint picker has one replica on one node")


def _restart(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("DynamoGraphDeployment"):
        if manifest.at("spec", "restart") is not None:
            yield Spot(manifest, ("spec", "restart"), "a new graph with a restart is refused")


def _annotations(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("DynamoGraphDeployment"):
        for key, allowed in _ANNOTATIONS.items():
            found = manifest.annotations.get(key)
            if found is not None and found not in allowed:
                what = f"{found} is none of {', '.join(allowed)}"
                yield Spot(manifest, ("metadata", "annotations", key), what)


_WEBHOOK = "https://github.com/ai-dynamo/dynamo/tree/main/deploy/operator/internal/webhook"
_API = "https://github.com/ai-dynamo/dynamo/tree/main/deploy/operator/api/v1beta1"

RULES: tuple[Rule, ...] = (
    Rule(
        id="D001",
        severity="error",
        title="Each component has a container main with an image",
        reason="The operator's webhook refuses the graph otherwise.",
        source=_WEBHOOK,
        fix="Name the engine's container main and give it an image.",
        check=_main_container,
    ),
    Rule(
        id="D002",
        severity="error",
        title="The operator can tell which Dynamo is in an image",
        reason="From release 1.5 on its webhook refuses a component whose tag is no version, "
        "since what it injects depends on it.",
        source="dynamo#10494",
        fix="Set runtimeVersionOverride, for example 1.6.1; it does not change the image.",
        check=_runtime_version,
    ),
    Rule(
        id="D003",
        severity="error",
        title="The operator sees the parallel sizes of a multi-node engine",
        reason="It reads only long flags with a separate value in args; else it injects neither "
        "leader nor rank, and each node starts an engine of its own.",
        source="https://github.com/ai-dynamo/dynamo/blob/main/deploy/operator/internal/dynamo/"
        "backend_vllm.go",
        fix="Write --tensor-parallel-size 8 as two words in args.",
        check=_not_injected,
    ),
    Rule(
        id="D004",
        severity="error",
        title="Workers say what they start",
        reason="The operator's default is a shell without arguments, which ends at once.",
        source="https://github.com/ai-dynamo/dynamo/blob/main/deploy/operator/internal/dynamo/"
        "component_worker.go",
        fix="Give the container main a command and args.",
        check=_command_given,
    ),
    Rule(
        id="D005",
        severity="warning",
        title=f"Names that Grove puts together have {GROVE_NAME_MAX} characters at most",
        reason="With Grove the operator's webhook refuses longer ones; without Grove they pass.",
        source=_WEBHOOK,
        fix="Shorten the name of the graph or of the component.",
        check=_names,
    ),
    Rule(
        id="D006",
        severity="error",
        title="Component names differ in more than capitals",
        reason="The API server refuses the graph (CEL rule of the CRD).",
        source=_API,
        fix="Rename one of them.",
        check=_same_names,
    ),
    Rule(
        id="D007",
        severity="error",
        title="minAvailable is no more than replicas",
        reason="The API server refuses the graph (CEL rule of the CRD).",
        source=_API,
        fix="Lower minAvailable.",
        check=_minimum,
    ),
    Rule(
        id="D008",
        severity="error",
        title="What a component names exists in its graph",
        reason="The operator's webhook refuses the graph otherwise.",
        source=_WEBHOOK,
        fix="Correct the name, or add what it names.",
        check=_references,
    ),
    Rule(
        id="D009",
        severity="error",
        title="An endpoint picker is one pod, and only it has an eppConfig",
        reason="The operator's webhook refuses the graph otherwise.",
        source=_WEBHOOK,
        fix="Correct the component's type, or its replicas.",
        check=_picker,
    ),
    Rule(
        id="D010",
        severity="warning",
        title="A manifest holds no restart",
        reason="restart is an order to a graph that runs; a new graph that has it is refused.",
        source=_API,
        fix="Remove spec.restart from what you keep in files.",
        check=_restart,
    ),
    Rule(
        id="D011",
        severity="error",
        title="The operator's annotations have values that it knows",
        reason="The operator's webhook refuses the graph otherwise.",
        source=_WEBHOOK,
        fix="Choose one of these values.",
        check=_annotations,
    ),
)
