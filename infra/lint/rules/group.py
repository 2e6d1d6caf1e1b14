"""Who is who in a group of pods: how many nodes they count, which rank serves, who restarts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.lint.commands import Command
from infra.lint.gpus import counted_gpus
from infra.lint.pods import PodTemplate, Workload, whole
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

_SIZE = ("spec", "leaderWorkerTemplate", "size")
_RESTART = ("spec", "leaderWorkerTemplate", "restartPolicy")
_HEADLESS = "--headless"
_RAY = re.compile(r"\bray(\b|_)")
_EXECUTOR = "--distributed-executor-backend"
# Each node has an API server of its own where a balancer stands before the ranks.
_SERVERS_EVERYWHERE = ("--data-parallel-hybrid-lb", "--data-parallel-external-lb")
_ON = frozenset({"1", "true", "yes", "on"})


def _groups(scene: Scene) -> Iterator[tuple[Workload, PodTemplate, Command]]:
    """Yield the engines of LeaderWorkerSets; Dynamo's operator writes these flags by itself."""
    for workload in scene.engines:
        manifest = workload.manifest
        if manifest.kind != "LeaderWorkerSet":
            continue
        for command in scene.commands_of(workload):
            path = command.container.path
            template = next(
                item for item in workload.templates if path[: len(item.path)] == item.path
            )
            yield workload, template, command


def _node_counts(scene: Scene) -> Iterator[Spot]:
    for workload, _, command in _groups(scene):
        size = workload.manifest.at(*_SIZE)
        nodes = command.given.number("--nnodes", default=workload.nodes)
        if nodes is None or nodes == workload.nodes or (size is not None and whole(size) is None):
            continue
        what = f"--nnodes {nodes}, but a group of {workload.name} has {workload.nodes} pods"
        yield Spot(workload.manifest, command.place("--nnodes"), what)
    yield from _uncounted(scene)


def _uncounted(scene: Scene) -> Iterator[Spot]:
    """Find vLLM alone in its pod with more tensor ranks than GPUs; Ray would bring the others."""
    for workload, _, command in _groups(scene):
        own = command.engine == "vllm" and not command.given.hides_more and workload.is_group
        if not own or command.has("--nnodes") or command.value(_EXECUTOR) not in (None, "mp"):
            continue
        ranks = command.given.number("--tensor-parallel-size", default=1)
        gpus = counted_gpus(command.container)
        if ranks is not None and gpus is not None and ranks > gpus and not _has_ray(command):
            what = f"{ranks} tensor ranks and no --nnodes, but a pod has {gpus} GPUs"
            yield Spot(workload.manifest, command.container.path, what)


def _has_ray(command: Command) -> bool:
    started = [command.container.data.get(key) for key in ("command", "args")]
    return bool(_RAY.search(str(started)))


def _servers(scene: Scene) -> Iterator[Spot]:
    for workload, template, command in _groups(scene):
        nodes = command.given.number("--nnodes", default=1)
        if command.engine != "vllm" or not workload.is_group or command.given.hides_more:
            continue
        if template.role == "leader" and _is_headless(command):
            what = "rank 0 is headless, so nobody serves"
            yield Spot(workload.manifest, command.place(_HEADLESS), what)
        counts = nodes is not None and nodes > 1 and not command.has(*_SERVERS_EVERYWHERE)
        if template.role == "worker" and counts and not _is_headless(command):
            what = "a rank beside the leader starts a server of its own"
            yield Spot(workload.manifest, command.container.path, what)


def _is_headless(command: Command) -> bool:
    if command.has(_HEADLESS):
        return True
    return (command.env.get("DYN_VLLM_HEADLESS") or "").lower() in _ON


def _restarts(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        manifest = workload.manifest
        if workload.is_group and manifest.at(*_RESTART) == "None":
            what = "a pod that restarts comes back alone"
            yield Spot(manifest, _RESTART, what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="K025",
        severity="error",
        title="An engine counts as many nodes as its group has pods",
        reason="It waits for ranks that nobody starts, until its start runs out of time.",
        source="https://docs.nvidia.com/dynamo/dev/cli/model-deployment/multi-node-deployment",
        fix="Give --nnodes the size of the LeaderWorkerSet.",
        check=_node_counts,
    ),
    Rule(
        id="K026",
        severity="error",
        title="Rank 0 serves, and no other",
        reason="A worker without --headless registers as a model of its own, which answers "
        "nothing; a headless leader leaves the replica without an entrance.",
        source="https://docs.vllm.ai/en/v0.16.0/api/vllm/entrypoints/cli/serve/",
        fix="Give --headless to the workers, and to them only.",
        check=_servers,
    ),
    Rule(
        id="K027",
        severity="warning",
        title="A group restarts as a whole",
        reason="The other ranks still hold the broken collective: the replica hangs until somebody "
        "deletes them.",
        source="https://github.com/kubernetes-sigs/lws/blob/main/docs/examples/sample/README.md",
        fix="Set restartPolicy to RecreateGroupOnPodRestart.",
        check=_restarts,
    ),
)
