"""What a container is given: secrets, weights, ports to be asked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from infra.lint.commands import Command
from infra.lint.pods import Container, sequence
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene
from infra.lint.weights_source import is_local, source_of

_SECRET_NAMES = re.compile(
    r"(?:\w+_)?(?:API_KEY|ACCESS_KEY|SECRET_KEY|SECRET_ACCESS_KEY|PASSWORD|HF_TOKEN|HUB_TOKEN|"
    r"AUTH_TOKEN|ACCESS_TOKEN|GITHUB_TOKEN)"
)
_SECRET_VALUES = re.compile(r"(?:sk-|hf_|nvapi-|ghp_|github_pat_|glpat-|AKIA|xox[bp]-)\S{4,}")
# Written where a program insists on a value that nobody checks.
_NO_SECRETS = re.compile(
    r"|empty|none|null|dummy|fake|test|token|changeme|x+|-+|\W.*|not\W.*|your\W.*"
)
_CACHE_ENV = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE")
_CACHE_PATH = re.compile(r"hugging|\bhf\b|hf[_-]|model|\.cache/?$|^/cache/?$", re.IGNORECASE)
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_ON = frozenset({"1", "true", "yes", "on"})
# vLLM, TensorRT-LLM and Dynamo's frontend; SGLang; the status server of Dynamo's workers.
_DEFAULT_PORTS = frozenset({"8000", "30000", "9090", "8081"})
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def _secrets(scene: Scene) -> Iterator[Spot]:
    for template in scene.templates:
        for container in template.all_containers():
            for name, value, path in container.env_entries():
                if value is not None and _is_secret(name, value):
                    yield Spot(template.manifest, path, f"{name} holds its secret in plain text")
    for command in scene.commands:
        key = command.find("--api-key")
        if key and _is_secret("API_KEY", key.text):
            what = "--api-key is given in plain text"
            yield Spot(command.container.manifest, key.path, what)


def _is_secret(name: str, value: str) -> bool:
    if "$" in value or _NO_SECRETS.fullmatch(value.lower()):
        return False
    return bool(_SECRET_NAMES.fullmatch(name) or _SECRET_VALUES.fullmatch(value))


def _offline(scene: Scene) -> Iterator[Spot]:
    for command in scene.commands:
        source = source_of(command) if command.engine else None
        env = command.env
        if source is None or is_local(source) or _has_cache(command.container):
            continue
        on = next((name for name in _OFFLINE if (env.get(name) or "").lower() in _ON), None)
        if on and not any(name in env for name in _CACHE_ENV):
            word = command.find("--model", "--model-path")
            what = f"{source} is to be fetched, but {on} forbids it and no cache is mounted"
            path = word.path if word else command.container.path
            yield Spot(command.container.manifest, path, what)


def _has_cache(container: Container) -> bool:
    mounts = sequence(container.data.get("volumeMounts"))
    return any(
        isinstance(item, dict) and _CACHE_PATH.search(str(item.get("mountPath"))) for item in mounts
    )


def _probe_ports(scene: Scene) -> Iterator[Spot]:
    commands = {id(command.container.data): command for command in scene.commands}
    for template in scene.templates:
        if template.manifest.kind == "DynamoGraphDeployment":  # its operator adds ports
            continue
        for container in template.all_containers():
            command = commands.get(id(container.data))
            for probe in _PROBES:
                for how in ("httpGet", "tcpSocket"):
                    path = (*container.path, probe, how, "port")
                    port = container.manifest.at(*path)
                    if port is not None and (what := _unserved(container, command, port)):
                        yield Spot(template.manifest, path, what)


def _unserved(container: Container, command: Command | None, port: object) -> str | None:
    declared = [item for item in sequence(container.data.get("ports")) if isinstance(item, dict)]
    if isinstance(port, str) and not port.isdigit():
        known = port in [item.get("name") for item in declared]
        return None if known else f"the container has no port named {port}"
    # An image may listen where nobody says so: only of engines and frontends we know better.
    if command is None or not declared or command.given.hides_more:
        return None
    said = chain(command.texts, (value or "" for value in command.env.values()))
    numbers = {number for text in said for number in re.findall(r"\d+", text)} | _DEFAULT_PORTS
    numbers |= {str(item.get("containerPort")) for item in declared}
    is_open = any(value is None and "PORT" in name for name, value in command.env.items())
    if str(port) in numbers or is_open:
        return None
    return f"no port {port} is declared, nor named in the command or a variable"


RULES: tuple[Rule, ...] = (
    Rule(
        id="P028",
        severity="warning",
        title="Secrets come from a Secret",
        reason="Whoever reads the manifest, the pod or its history has the key.",
        source="https://kubernetes.io/docs/concepts/configuration/secret/",
        fix="Use valueFrom.secretKeyRef, and change the key.",
        check=_secrets,
    ),
    Rule(
        id="P029",
        severity="warning",
        title="Weights that are offline are there",
        reason="The engine looks in an empty cache, and ends.",
        source="https://huggingface.co/docs/huggingface_hub/package_reference/"
        "environment_variables (HF_HUB_OFFLINE)",
        fix="Name the folder where the weights are mounted, or mount a cache and set HF_HOME.",
        check=_offline,
    ),
    Rule(
        id="X021",
        severity="error",
        title="A probe asks at a port of its container",
        reason="It fails for ever: the pod is restarted, or never becomes ready.",
        source="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
        fix="Use the port on which the container listens.",
        check=_probe_ports,
    ),
)
