"""What happens while pods start, stop and are replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fleet.units import whole_number
from infra.lint.images import parse_image
from infra.lint.pods import Container, PodTemplate, Workload, whole
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene
from infra.lint.selectors import ranks, selects

_UPDATE = ("spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxSurge")
_NO_SURGE = frozenset({"0", "0%", "None"})
# 1.5 TB over two nodes at 1 GB/s each is 13 minutes, and warm-up takes as long; the public
# recipes allow 120.
STARTUP_LEAST_S = 30 * 60
_PROBE_DEFAULTS = {"periodSeconds": 10, "failureThreshold": 3, "initialDelaySeconds": 0}
_DRAIN = re.compile(r"DYN_\w*(?:SHUTDOWN|DRAIN)\w*TIMEOUT\w*")
SHORT_GRACE_S = 60  # the Dynamo operator's default
_DEFAULT_GRACE_S: Mapping[str, int] = {"DynamoGraphDeployment": SHORT_GRACE_S}
# Controllers, by the end of their image's repository, and the first version without the bug.
_FLOORS: Mapping[str, tuple[tuple[int, ...], str]] = {
    "lws/lws": ((0, 9, 0), "lws#291: a leader is killed twice in an update"),
    "dra-driver-nvidia-gpu": ((0, 5, 0), "dra#1447: domains dial pod addresses used before"),
    "kueue/kueue": ((0, 16, 0), "kueue#8769: surge pods stay gated"),
}


def _surge(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("LeaderWorkerSet"):
        found = manifest.at(*_UPDATE)
        if str(found) not in _NO_SURGE:
            yield Spot(manifest, _UPDATE, f"maxSurge is {found}")


def _probes(scene: Scene) -> Iterator[Spot]:
    for workload in scene.engines:
        for template in workload.templates:
            for container in template.containers():
                yield from _container_probes(workload, template, container)


def _container_probes(
    workload: Workload, template: PodTemplate, container: Container
) -> Iterator[Spot]:
    startup = container.data.get("startupProbe")
    if isinstance(startup, dict):
        budget_s = _budget_s(startup)
        if budget_s is not None and budget_s < STARTUP_LEAST_S:
            what = f"the engine is killed when it is not up after {budget_s} s"
            yield Spot(workload.manifest, (*container.path, "startupProbe"), what)
    elif container.data.get("livenessProbe") and workload.manifest.kind == "LeaderWorkerSet":
        # The operator adds a startup probe of two hours where a component has none.
        what = "a liveness probe without a startup probe kills the engine while it loads"
        yield Spot(workload.manifest, (*container.path, "livenessProbe"), what)
    if workload.is_group and workload.manifest.kind == "LeaderWorkerSet":
        yield from _readiness_of_workers(workload, template, container)


def _readiness_of_workers(
    workload: Workload, template: PodTemplate, container: Container
) -> Iterator[Spot]:
    probe = container.data.get("readinessProbe")
    if template.role != "leader" and isinstance(probe, dict) and "httpGet" in probe:
        what = "ranks other than 0 serve no HTTP, so these pods never get ready"
        yield Spot(workload.manifest, (*container.path, "readinessProbe"), what)


def _budget_s(probe: Mapping[str, object]) -> int | None:
    numbers = [whole(probe.get(key, default)) for key, default in _PROBE_DEFAULTS.items()]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    period, failures, delay = known
    return delay + period * failures


def _grace(scene: Scene) -> Iterator[Spot]:
    for workload, template, grace_s in _graces(scene):
        for container in template.containers():
            for name, value, path in container.env_entries():
                drain_s = whole_number(value) if _DRAIN.fullmatch(name) else None
                if drain_s is not None and drain_s >= grace_s:
                    what = f"{name} is {value} s, but the pod is killed after {grace_s} s"
                    yield Spot(workload.manifest, path, what)


def _short_grace(scene: Scene) -> Iterator[Spot]:
    engines = frozenset(scene.engines)
    for workload, template, grace_s in _graces(scene):
        if workload in engines and grace_s <= SHORT_GRACE_S:
            path = (*template.spec_path, "terminationGracePeriodSeconds")
            what = f"an engine has {grace_s} s to finish its streams"
            yield Spot(workload.manifest, path, what)


def _graces(scene: Scene) -> Iterator[tuple[Workload, PodTemplate, int]]:
    for workload in scene.workloads:
        if not scene.commands_of(workload):
            continue
        default = _DEFAULT_GRACE_S.get(workload.manifest.kind, 30)
        for template in workload.templates:
            grace_s = template.spec.get("terminationGracePeriodSeconds", default)
            if isinstance(grace_s, int):
                yield workload, template, grace_s


def _budgets(scene: Scene) -> Iterator[Spot]:
    for manifest in scene.of("PodDisruptionBudget"):
        groups = [
            item
            for item in scene.engines
            if item.is_group
            and item.manifest.region == manifest.region
            and any(selects(manifest.at("spec", "selector"), rank.labels) for rank in ranks(item))
        ]
        if not groups or any(item.replicas is None for item in groups):
            continue
        pods = sum(item.nodes * (item.replicas or 0) for item in groups)
        size = max(item.nodes for item in groups)
        least, most = manifest.at("spec", "minAvailable"), manifest.at("spec", "maxUnavailable")
        if isinstance(least, int) and pods > least and (pods - least) % size:
            what = f"{pods - least} of {pods} pods may go, but a replica has {size}"
            yield Spot(manifest, ("spec", "minAvailable"), what)
        elif isinstance(most, int) and most % size:
            what = f"{most} pod(s) may go, but a replica has {size}"
            yield Spot(manifest, ("spec", "maxUnavailable"), what)


def _floors(scene: Scene) -> Iterator[Spot]:
    for template in scene.templates:
        for container in template.all_containers():
            image = parse_image(container.image)
            found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", image.tag)
            for ending, (floor, why) in _FLOORS.items():
                if not found or not image.repository.endswith(ending):
                    continue
                if tuple(map(int, found.groups())) < floor:
                    least = ".".join(map(str, floor))
                    what = f"{image.tag} is older than {least} ({why})"
                    yield Spot(template.manifest, (*container.path, "image"), what)


RULES: tuple[Rule, ...] = (
    Rule(
        id="K003",
        severity="error",
        title="A rollout never surges",
        reason="A full rack has no node to surge onto, so the rollout waits for one for ever.",
        source="lws#779",
        fix="Set maxSurge to 0.",
        check=_surge,
    ),
    Rule(
        id="K009",
        severity="error",
        title="Probes leave the engine time to load, and only rank 0 answers them",
        reason="Loading 1.5 TB and warming up takes tens of minutes; a probe that gives up "
        "earlier starts it all again, for ever.",
        source="https://github.com/ai-dynamo/dynamo/tree/main/recipes/kimi-k3 (120 minutes)",
        fix="Give rank 0 a startup probe of an hour or two, and the other ranks no HTTP probe.",
        check=_probes,
    ),
    Rule(
        id="K010",
        severity="error",
        title="A pod's grace period is longer than what its program drains for",
        reason="Kubernetes kills the pod in the middle of the drain, and its streams break.",
        source="dynamo#13559",
        fix="Set terminationGracePeriodSeconds above every DYN_* shutdown timeout.",
        check=_grace,
    ),
    Rule(
        id="K011",
        severity="error",
        title="A disruption budget counts in whole replicas",
        reason="A drain that takes one pod breaks its replica, and the budget then forbids to take "
        "the other pod of it: the drain hangs.",
        source="pdb-operator#81",
        fix="Make the number of pods that may go a multiple of the replica's nodes.",
        check=_budgets,
    ),
    Rule(
        id="K019",
        severity="warning",
        title="Controllers are new enough",
        reason="Older ones have bugs that stop or break multi-node replicas.",
        source="lws#291, dra#1447, kueue#8769",
        fix="Use that version or a later one.",
        check=_floors,
    ),
    Rule(
        id="K021",
        severity="warning",
        title="An engine has more than a minute to finish its streams",
        reason="Turns of coding agents stream for minutes; what is cut off costs the session's "
        "whole context in a new prefill.",
        source="dynamo#13559, dynamo#11173",
        fix="Set terminationGracePeriodSeconds to the longest stream that you promise, for "
        "example 960, and DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS below it.",
        check=_short_grace,
    ),
)
