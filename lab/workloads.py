"""Decide what process stands behind a pod, and when it may start and is ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import LabError
from lab.containers import ProcessPlan, container_env, process_plan
from lab.engines import mocker_argv
from lab.node_context import NodeContext
from lab.pods import PodView
from verify.smoke import http_ok, listed_models, serves

COMPONENT_LABEL = "app.kubernetes.io/name"
RELEASE_LABEL = "k3fleet.io/release"

ENDPOINT_COMPONENT = "backend.generate"  # the Dynamo component and endpoint all engines share


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A process to run for a pod; `startable` false later means it has to stop again.

    `new_probe` makes the readiness check of one start: what an earlier process answered does not
    count for the next.
    """

    plan: ProcessPlan
    startable: Callable[[], bool]
    new_probe: Callable[[], Callable[[], bool]]


def workload_of(pod: PodView, address: str, folder: Path, node: NodeContext) -> Workload | None:
    """Return a pod's process, or nothing for the second pod of a replica."""
    if pod.is_worker:
        return None
    if pod.is_leader:
        return _engine(pod, address, node)
    component = pod.labels.get(COMPONENT_LABEL)
    if component == "frontend":
        return _frontend(pod, address, folder, node)
    if component == "gateway":
        return _gateway(pod, address, folder, node)
    raise LabError(
        f"{pod.name}: component {component!r} is none that the lab can run "
        "(engine, frontend, gateway). Leave it out of the rehearsal."
    )


def _engine(pod: PodView, address: str, node: NodeContext) -> Workload:
    settings = node.settings
    release = pod.labels.get(RELEASE_LABEL, "")
    if release not in settings.engines:
        raise LabError(f"{pod.name}: release {release!r} is not known to this lab. Start it anew.")
    env = container_env(pod, address)
    argv = mocker_argv(
        settings.engines[release],
        python=str(settings.python),
        model_dir=settings.model_dir,
        model_name=settings.model_name,
        speed_table=settings.speed_table,
    )
    endpoint = f"dyn://{env['DYN_NAMESPACE']}.{ENDPOINT_COMPONENT}"
    plan = ProcessPlan(argv=(*argv, "--endpoint", endpoint), env=env | _dynamo_env(pod, node))

    def partner_runs() -> bool:
        partner = node.store.get(f"{pod.name}-1")
        return partner is not None and partner.phase == "Running" and not partner.deleting

    def new_probe() -> Callable[[], bool]:
        return lambda: _probe(pod, address)

    return Workload(plan=plan, startable=partner_runs, new_probe=new_probe)


def _frontend(pod: PodView, address: str, folder: Path, node: NodeContext) -> Workload:
    settings = node.settings
    rendered = process_plan(pod, address, folder)
    argv = tuple(
        str(settings.python) if word in {"python", "python3"} else word for word in rendered.argv
    )
    env = dict(rendered.env) | _dynamo_env(pod, node)
    plan = ProcessPlan(argv=argv, env=env, config_maps=rendered.config_maps)
    port = _named_port(pod, "http")
    url = f"http://{address}:{port}"
    return Workload(plan=plan, startable=_always, new_probe=_answers(url, settings.model_name))


def _gateway(pod: PodView, address: str, folder: Path, node: NodeContext) -> Workload:
    settings = node.settings
    rendered = process_plan(pod, address, folder)
    if rendered.argv[0] != "envoy":
        raise LabError(f"{pod.name}: a gateway runs `envoy`, this one {rendered.argv[0]!r}.")
    plan = ProcessPlan(
        argv=(str(settings.envoy), *rendered.argv[1:]),
        env=rendered.env,
        config_maps=rendered.config_maps,
    )
    url = f"http://{settings.network.gateway}:{_named_port(pod, 'http')}"
    return Workload(plan=plan, startable=_always, new_probe=_answers(url, settings.model_name))


def _answers(base_url: str, model: str) -> Callable[[], Callable[[], bool]]:
    return lambda: _Answers(base_url, model).ready


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


def _probe(pod: PodView, address: str) -> bool:
    probe = pod.container["readinessProbe"]["httpGet"]
    return http_ok(f"http://{address}:{_port(pod, probe['port'])}{probe['path']}")


def _port(pod: PodView, port: int | str) -> int:
    return port if isinstance(port, int) else _named_port(pod, port)


def _named_port(pod: PodView, name: str) -> int:
    for port in pod.container.get("ports", ()):
        if port.get("name") == name:
            return int(port["containerPort"])
    raise LabError(f"{pod.name}: its container has no port named {name!r}. Name it.")


def _always() -> bool:
    return True
