"""Decide what process stands behind a pod, and when it may start and is ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fleet.errors import LabError
from lab.containers import Place, ProcessPlan, container_env, process_plan
from lab.engines import mocker_argv
from lab.house_engine import house_plan, may_join
from lab.lws_templates import LEADER_UID
from lab.node_context import NodeContext
from lab.pods import REPLICA_LABEL, PodView
from verify.smoke import http_ok, listed_models, serves

COMPONENT_LABEL = "app.kubernetes.io/name"
RELEASE_LABEL = "k3fleet.io/release"

Condition = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A process to run for a pod; when `may_run` fails it has to stop.

    `plan` is asked for once it may start. `new_probe` makes the readiness check of one start: what
    an earlier process answered does not count for the next.
    """

    plan: Callable[[], ProcessPlan]
    may_start: Condition
    may_run: Condition
    new_probe: Callable[[], Condition]


def workload_of(pod: PodView, place: Place, node: NodeContext) -> Workload | None:
    """Return a pod's process, or nothing for the second pod of a mocked replica."""
    component = pod.labels.get(COMPONENT_LABEL)
    if pod.is_leader or pod.is_worker:
        settings = node.settings.knowing(pod.labels.get(RELEASE_LABEL, ""))
        node = replace(node, settings=settings)
        if pod.labels.get(RELEASE_LABEL, "") in node.settings.house_engines:
            return _house_engine(pod, place, node)
        return None if pod.is_worker else _engine(pod, place, node)
    if component == "frontend":
        return _frontend(pod, place, node)
    if component == "gateway":
        return _gateway(pod, place, node)
    raise LabError(
        f"{pod.name}: component {component!r} is none that the lab can run "
        "(engine, frontend, gateway). Leave it out of the rehearsal."
    )


def _engine(pod: PodView, place: Place, node: NodeContext) -> Workload:
    settings = node.settings
    release = pod.labels.get(RELEASE_LABEL, "")
    if release not in settings.engines:
        raise LabError(
            f"{pod.name}: release {release!r} is not known to this lab. Start it anew, or "
            "bring the release with `k3fleet rollout start`."
        )
    env = container_env(pod, place)
    shape = settings.engines[release][settings.roles[pod.labels[REPLICA_LABEL]]]
    argv = mocker_argv(
        shape,
        python=str(settings.python),
        model_dir=settings.model_dir,
        model_name=settings.model_name,
        tables=settings.tables,
    )
    endpoint = f"dyn://{env['DYN_NAMESPACE']}.{shape.endpoint}"
    plan = ProcessPlan(argv=(*argv, "--endpoint", endpoint), env=env | _dynamo_env(pod, node))

    def partner_runs() -> bool:
        """Look for the pod of this group; one of the last group may still be there."""
        partner = node.store.get(f"{pod.name}-1")
        return (
            partner is not None
            and partner.annotations.get(LEADER_UID) == pod.uid
            and partner.phase == "Running"
            and not partner.deleting
        )

    return Workload(
        plan=lambda: plan,
        may_start=_never if shape.fault == "never-ready" else partner_runs,
        may_run=partner_runs,
        new_probe=_own_probe(pod, place),
    )


def _house_engine(pod: PodView, place: Place, node: NodeContext) -> Workload:
    """Run the command of the release itself, in both pods: it is the house's own program."""

    def plan() -> ProcessPlan:
        found = house_plan(pod, place, node)
        return replace(found, env={**found.env, **_dynamo_env(pod, node)})

    return Workload(
        plan=plan,
        may_start=(lambda: may_join(pod, node)) if pod.is_worker else _always,
        may_run=_always,  # what a program does without its partner is its own business
        new_probe=(lambda: _always) if pod.is_worker else _own_probe(pod, place),
    )


def _frontend(pod: PodView, place: Place, node: NodeContext) -> Workload:
    settings = node.settings
    rendered = process_plan(pod, place)
    argv = tuple(
        str(settings.python) if word in {"python", "python3"} else word for word in rendered.argv
    )
    plan = replace(rendered, argv=argv, env={**rendered.env, **_dynamo_env(pod, node)})
    url = f"http://{place.address}:{_named_port(pod, 'http')}"
    return _server(plan, url, settings.model_name)


def _gateway(pod: PodView, place: Place, node: NodeContext) -> Workload:
    settings = node.settings
    rendered = process_plan(pod, place)
    if rendered.argv[0] != "envoy":
        raise LabError(f"{pod.name}: a gateway runs `envoy`, this one {rendered.argv[0]!r}.")
    plan = replace(rendered, argv=(str(settings.envoy), *rendered.argv[1:]))
    url = f"http://{settings.network.gateway}:{_named_port(pod, 'http')}"
    return _server(plan, url, settings.model_name)


def _server(plan: ProcessPlan, base_url: str, model: str) -> Workload:
    """Start at once; be ready when the model is served."""
    return Workload(
        plan=lambda: plan,
        may_start=_always,
        may_run=_always,
        new_probe=lambda: _Answers(base_url, model).ready,
    )


class _Answers:
    """Ready once the model is listed and a chat was answered; then listing is enough."""

    def __init__(self, base_url: str, model: str) -> None:
        self._base_url = base_url
        self._model = model
        self._answered = False

    def ready(self) -> bool:
        if not self._answered:
            self._answered = serves(self._base_url, self._model)
            return self._answered
        return self._model in listed_models(self._base_url)


def _dynamo_env(pod: PodView, node: NodeContext) -> dict[str, str]:
    """What a Dynamo process needs beside its manifest: its own access to the lab's API server."""
    return {
        "KUBECONFIG": str(node.kubeconfig_for(pod)),
        "DYN_LOG": "warn",
        "DYN_DISABLE_TELEMETRY": "1",
    }


def _own_probe(pod: PodView, place: Place) -> Callable[[], Condition]:
    """Ask what the manifest's readiness probe asks."""

    def answers() -> bool:
        probe = pod.container["readinessProbe"]["httpGet"]
        return http_ok(f"http://{place.address}:{_port(pod, probe['port'])}{probe['path']}")

    return lambda: answers


def _port(pod: PodView, port: int | str) -> int:
    return port if isinstance(port, int) else _named_port(pod, port)


def _named_port(pod: PodView, name: str) -> int:
    for port in pod.container.get("ports", ()):
        if port.get("name") == name:
            return int(port["containerPort"])
    raise LabError(f"{pod.name}: its container has no port named {name!r}. Name it.")


def _always() -> bool:
    return True


def _never() -> bool:
    return False
