"""Where pods may run, and what they find there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.lint.commands import Command
from infra.lint.concern import CLIQUE, concerns
from infra.lint.gpus import ARCH, PRODUCT
from infra.lint.images import parse_image
from infra.lint.manifest import RACK
from infra.lint.pods import Workload, sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene
from infra.lint.selectors import ranks, selects

_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_REVISION = re.compile(r"[0-9a-f]{12,}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def _pins(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        if workload.manifest.kind != "LeaderWorkerSet" or not workload.is_group:
            continue
        for key in (RACK, CLIQUE):
            found = [(item, item.node_values(key)) for item in workload.templates]
            first = found[0][1]
            for template, values in found[1:]:
                if values != first:
                    what = f"rank 0 is bound to {_listed(first)} by {key}, the others to "
                    path = (*template.spec_path, "nodeSelector")
                    yield Spot(workload.manifest, path, what + _listed(values))


def _listed(values: tuple[str, ...]) -> str:
    return " or ".join(values) or "nothing"


def _no_pin(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        if not workload.is_group or workload.manifest.at("spec", "topologyConstraint"):
            continue
        if not concerns(scene, workload):
            continue
        for template in workload.templates[:1]:
            if not template.node_values(RACK) and not template.node_values(CLIQUE):
                what = f"the {workload.nodes} pods of a replica may land in different racks"
                yield Spot(workload.manifest, template.spec_path, what)


def _exclusive(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("LeaderWorkerSet"):
        if _EXCLUSIVE in manifest.annotations:
            what = "the annotation gives each replica a topology domain of its own"
            yield Spot(manifest, ("metadata", "annotations", _EXCLUSIVE), what)


def _tolerations(scene: Scene) -> Iterator[Spot]:
    for workload in scene.workloads:
        if not scene.commands_of(workload):
            continue
        for template in workload.templates:
            for index, item in enumerate(sequence(template.spec.get("tolerations"))):
                if isinstance(item, dict) and not item.get("key"):
                    path = (*template.spec_path, "tolerations", index)
                    yield Spot(workload.manifest, path, "a toleration without a key")


def _arch(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        for template in workload.templates if concerns(scene, workload) else ():
            if not any(template.node_values(key) for key in (ARCH, PRODUCT, CLIQUE, RACK)):
                what = "nothing keeps these pods on the rack's arm64 nodes"
                yield Spot(workload.manifest, template.spec_path, what)


def _weights(scene: Scene) -> Iterator[Spot]:
    for command in scene.commands:
        model = command.find("--model", "--model-path") if command.engine else None
        if model is None or not model.text.startswith("/"):
            continue
        source = _mounted(command, model.text)
        if source is not None and not _REVISION.search(source + model.text):
            what = f"the weights lie in {source}, which does not name their revision"
            yield Spot(command.container.manifest, model.path, what)


def _mounted(command: Command, path: str) -> str | None:
    """Return the node's folder (and `subPath`) behind a path of the container, if it has one."""
    container = command.container
    for mount in sequence(container.data.get("volumeMounts")):
        if not isinstance(mount, dict):
            continue
        place = str(mount.get("mountPath")).rstrip("/")
        if path != place and not path.startswith(f"{place}/"):
            continue
        spec_path = container.path[:-2]
        for volume in sequence(container.manifest.at(*spec_path, "volumes")):
            if isinstance(volume, dict) and volume.get("name") == mount.get("name"):
                host = volume.get("hostPath")
                if isinstance(host, dict):
                    return f"{host.get('path')}/{mount.get('subPath') or ''}".rstrip("/")
    return None


def _digests(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        yield from _not_by_digest(workload)


def _other_digests(scene: Scene) -> Iterator[Spot]:
    engines = frozenset(scene.engines)
    for workload in scene.workloads:
        if scene.commands_of(workload) and workload not in engines:
            yield from _not_by_digest(workload)


def _not_by_digest(workload: Workload) -> Iterator[Spot]:
    for template in workload.templates:
        for container in template.all_containers():
            if container.image and not _DIGEST.fullmatch(parse_image(container.image).digest):
                path = (*container.path, "image")
                yield Spot(workload.manifest, path, f"{container.image} is not given by digest")


def _leaders_only(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("Service", "InferencePool"):
        selector = manifest.at("spec", "selector")
        for workload in scene.engines:
            if not workload.is_group or workload.manifest.region != manifest.region:
                continue
            if any(
                selects(selector, rank.labels) and not rank.is_leader for rank in ranks(workload)
            ):
                what = f"it also sends to pods of {workload.name} that serve nothing"
                yield Spot(manifest, ("spec", "selector"), what)
                break


RULES: tuple[Rule, ...] = (
    Rule(
        id="K002",
        severity="error",
        title="All ranks of a replica are bound to the same rack",
        reason="Tensor-parallel traffic leaves NVLink when they are not, and the replica fails "
        "silently when NCCL starts.",
        source="nvcf#1741",
        fix="Give leader and worker template the same node selector.",
        check=_pins,
    ),
    Rule(
        id="K004",
        severity="error",
        title="No replica has a rack for itself",
        reason="Exclusive topology lets one replica of 2 nodes take all 18 of a rack.",
        source="https://lws.sigs.k8s.io/docs/examples/topology/",
        fix="Remove the annotation; bind replicas to racks by a node selector.",
        check=_exclusive,
    ),
    Rule(
        id="K008",
        severity="error",
        title="A toleration names its taint",
        reason="One without a key also tolerates a cordon, so drained nodes get new pods.",
        source="https://github.com/ai-dynamo/dynamo/tree/main/recipes/kimi-k3",
        fix="Name the key, for example nvidia.com/gpu.",
        check=_tolerations,
    ),
    Rule(
        id="K012",
        severity="warning",
        title="A folder of weights names their revision",
        reason="Without it a node may serve what an older or half copied download left behind, "
        "and a way back to the revision before is overwritten.",
        source="vast-ai/base-image#233, dynamo recipes/kimi-k3",
        fix="Stage each revision in a folder of its name and mount that one.",
        check=_weights,
    ),
    Rule(
        id="K014",
        severity="error",
        title="Images of engines are given by digest",
        reason="Tags of K3 images were moved to other content, which then hung or answered "
        "differently.",
        source="sglang#32541, InferenceX#2956",
        fix="Write repository:tag@sha256:<digest>.",
        check=_digests,
    ),
    Rule(
        id="K018",
        severity="error",
        title="What sends requests to engines selects rank 0 only",
        reason="The other ranks serve nothing: every request that reaches them fails.",
        source="https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/",
        fix='Add leaderworkerset.sigs.k8s.io/worker-index: "0" to the selector.',
        check=_leaders_only,
    ),
    Rule(
        id="K024",
        severity="info",
        title="Images of frontends are given by digest",
        reason="They hold the tokenizer and the parsers; a moved tag changes answers.",
        source="sglang#32541, InferenceX#2956",
        fix="Write repository:tag@sha256:<digest>.",
        check=_other_digests,
    ),
    Rule(
        id="K022",
        severity="warning",
        title="Engines are kept on the rack's nodes",
        reason="On an x86 node an arm64 image does not start.",
        source="https://github.com/ai-dynamo/dynamo/tree/main/recipes/kimi-k3",
        fix="Select kubernetes.io/arch: arm64 and the GPU product or the rack.",
        check=_arch,
    ),
    Rule(
        id="K023",
        severity="warning",
        title="A replica is bound to a rack",
        reason="Without it, leaders of many replicas fill a rack before their workers come, and "
        "a replica that spans two racks fails when NCCL starts.",
        source="lws#167, nvcf#598",
        fix="Select one rack by node label, or let the scheduler pack by topology.",
        check=_no_pin,
    ),
)
