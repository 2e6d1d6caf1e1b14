"""What a replica is made of: nodes, GPUs, names, and who counts them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator

from fleet.region_spec import REPLICA_NAME_MAX
from infra.lint.commands import Command
from infra.lint.gpus import counted_gpus
from infra.lint.manifest import RACK
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def _geometry(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        for command in scene.commands_of(workload):
            asked, wanted = counted_gpus(command.container), _ranks(command)
            if asked is None or wanted is None:
                continue
            path = (*command.container.path, "resources")
            if wanted != asked * workload.nodes:
                what = (
                    f"{wanted} ranks are started on {workload.nodes} node(s) with {asked} GPU(s) "
                    f"each, {asked * workload.nodes} in all"
                )
                yield Spot(workload.manifest, path, what)
            elif workload.is_group and asked < scene.hardware.gpus_per_node:
                what = (
                    f"{asked} of the {scene.hardware.gpus_per_node} GPUs of a node are asked for: "
                    "two pods of one replica may land on one node"
                )
                yield Spot(workload.manifest, path, what)


def _ranks(command: Command) -> int | None:
    """Multiply the parallel sizes that take a GPU each, as the engine counts them."""
    flags = {
        "vllm": (
            "--tensor-parallel-size",
            "--pipeline-parallel-size",
            "--data-parallel-size",
        ),
        # SGLang's data parallelism of the attention is inside the tensor ranks.
        "sglang": ("--tp-size", "--pp-size"),
    }.get(command.engine or "")
    if flags is None or not command.has(flags[0]):
        return None
    sizes = [command.given.number(flag, default=1) for flag in flags]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _rack_overflow(scene: Scene) -> Iterator[Spot]:
    taken: dict[tuple[str, str], int] = defaultdict(int)
    for workload in scene.engines:
        racks = {rack for item in workload.templates for rack in item.node_values(RACK)}
        if len(racks) != 1 or workload.replicas is None:
            continue
        (rack,) = racks
        key = workload.manifest.region, rack
        before = taken[key]
        taken[key] += workload.nodes * workload.replicas
        nodes = scene.hardware.nodes_per_rack
        if before <= nodes < taken[key]:
            what = f"with this one the replicas of rack {rack} take {taken[key]} of {nodes} nodes"
            path = (*workload.path, "replicas") if workload.path else ("spec", "replicas")
            yield Spot(workload.manifest, path, what)


def _names(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("LeaderWorkerSet", "DynamoGraphDeployment"):
        name = manifest.name
        if name and not _DNS_1035.fullmatch(name):
            what = f"{name!r} does not start with a letter, or holds other than a-z, 0-9 and -"
            yield Spot(manifest, ("metadata", "name"), what)
        elif manifest.kind == "LeaderWorkerSet" and len(name) > REPLICA_NAME_MAX:
            what = f"the name has {len(name)} characters, {REPLICA_NAME_MAX} is Kueue's limit"
            yield Spot(manifest, ("metadata", "name"), what)


def _two_owners(scene: Scene) -> Iterator[Spot]:
    targets = {
        (item.region, item.at("spec", "scaleTargetRef", "kind"), name)
        for item in scene.of("HorizontalPodAutoscaler", "ScaledObject")
        if (name := item.at("spec", "scaleTargetRef", "name"))
    }
    for workload in scene.workloads:
        manifest = workload.manifest
        path = (*workload.path, "replicas") if workload.path else ("spec", "replicas")
        if manifest.at(*path) is None:
            continue
        if not workload.path and (manifest.region, manifest.kind, manifest.name) in targets:
            yield Spot(manifest, path, "an autoscaler and this object both set the replicas")
        elif workload.path and manifest.at(*workload.path, "scalingAdapter") is not None:
            what = f"component {workload.name} has a scalingAdapter and a number of its own"
            yield Spot(manifest, path, what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="K001",
        severity="error",
        title="A replica's nodes and GPUs are as many as its ranks, and it takes whole nodes",
        reason="With fewer GPUs than ranks no engine starts; with part of a node two pods of a "
        "replica share one node and the other stays empty.",
        source="dynamo#4975",
        fix="Make nodes x GPUs per pod equal to tensor x pipeline x data parallelism, and ask for "
        "all GPUs of a node.",
        check=_geometry,
    ),
    Rule(
        id="K005",
        severity="error",
        title="A rack holds floor(nodes / nodes per replica) replicas",
        reason="A replica too many stays Pending for ever, and with leaders first it takes a node "
        "that another replica needs for its worker.",
        source="lws#167",
        fix="Lower the replicas of this rack, or give them to another one.",
        check=_rack_overflow,
    ),
    Rule(
        id="K013",
        severity="error",
        title=f"Names are DNS-1035 labels, of a LeaderWorkerSet {REPLICA_NAME_MAX} characters long",
        reason="Pods, Services and Kueue's workloads are named after them; the longer ones are "
        "refused only when the pods are made.",
        source="https://kueue.sigs.k8s.io/docs/tasks/run/leaderworkerset/",
        fix="Choose a shorter name of a-z, 0-9 and - that starts with a letter.",
        check=_names,
    ),
    Rule(
        id="K016",
        severity="warning",
        title="One owner decides the number of replicas",
        reason="Each apply sets the number back that an autoscaler has just changed.",
        source="dynamo#12080",
        fix="Leave `replicas` out where an autoscaler or a scaling adapter decides it.",
        check=_two_owners,
    ),
)
