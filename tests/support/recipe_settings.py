"""Flatten a component of a DynamoGraphDeployment, or a pod, into named settings."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Settings = dict[str, str]
Found = Iterator[tuple[str, str]]
Data = Mapping[str, Any]


def graph_settings(objects: list[dict[str, Any]], graph: Data, name: str) -> Settings:
    """Give the settings of one component, and of the rack's domain that it claims."""
    component = next(item for item in graph["spec"]["components"] if item["name"] == name)
    found = pod_settings(component["podTemplate"])
    for key in component.keys() - {"name", "podTemplate"}:
        value = component[key]
        for label, text in _flat(f"object {key}", value):
            found[label] = text
    if component["type"] != "frontend":
        found["object backendFramework"] = graph["spec"]["backendFramework"]
        found["object labels"] = ", ".join(sorted(graph["metadata"].get("labels", {}))) or "none"
        domain = next(item for item in objects if item["kind"] == "ComputeDomain")
        found |= _domain(domain, component["podTemplate"]["spec"])
    return found


def _domain(domain: Data, pod: Data) -> Settings:
    channel = domain["spec"]["channel"]
    template = channel["resourceClaimTemplate"]["name"]
    claims = {claim["name"]: claim["resourceClaimTemplateName"] for claim in pod["resourceClaims"]}
    used = [claims[item["name"]] for item in pod["containers"][0]["resources"]["claims"]]
    return {
        "domain numNodes": str(domain["spec"]["numNodes"]),
        "domain allocationMode": str(channel["allocationMode"]),
        "domain claimed by pod and container": str(used == [template] == list(claims.values())),
    }


def pod_settings(template: Data) -> Settings:
    """Give the settings of a pod template with one container."""
    pod = template["spec"]
    (container,) = pod["containers"]
    return dict([*_pod(pod), *_container(container, pod)])


def _pod(pod: Data) -> Found:
    for key, value in pod.items():
        if key not in ("containers", "volumes", "resourceClaims"):
            yield from _POD.get(key, lambda item, key=key: _flat(f"pod {key}", item))(value)


def _container(container: Data, pod: Data) -> Found:
    ports = {item["name"]: item["containerPort"] for item in container.get("ports", [])}
    env = {item["name"]: _env_value(item) for item in container.get("env", [])}
    yield from ((f"env {name}", value) for name, value in env.items())
    yield from _command(container, env)
    yield from _mounts(container.get("volumeMounts", []), pod.get("volumes", []))
    for key, value in container.items():
        if key.endswith("Probe"):
            yield f"probe {key.removesuffix('Probe')}", _probe(value, ports)
        elif key == "resources":
            for kind in ("requests", "limits"):
                yield from _flat(f"resource {kind}", value.get(kind, {}))
        elif key == "ports":
            yield from ((f"port {name}", str(port)) for name, port in ports.items())
        elif key == "envFrom":
            yield from (("env from secret", item["secretRef"]["name"]) for item in value)
        elif key not in ("name", "env", "command", "args", "volumeMounts"):
            yield from _flat(f"container {key}", value)


def _flat(label: str, value: Any) -> Found:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(f"{label} {key}", item)
    elif isinstance(value, list) and value and not isinstance(value[0], dict):
        yield label, ", ".join(map(str, value))
    else:
        yield label, value if isinstance(value, str) else json.dumps(value)


def _env_value(item: Data) -> str:
    if "valueFrom" in item:
        return f"({item['valueFrom']['fieldRef']['fieldPath']})"
    return str(item["value"]) or '""'


def _command(container: Data, env: Mapping[str, str]) -> Found:
    """Read the flags out of words, or out of the script that a shell is given."""
    command, args = container["command"], container.get("args", [])
    if command[0].endswith("sh"):
        script = re.sub(r"\$\{(\w+)\}", lambda name: env[name[1]], args[0])
        script = script.replace("\\\n", " ")
        words = shlex.split(script, comments=True)
        start = words.index("exec")
        yield "command", " ".join(words[start + 1 : start + 4])
        if before := [word for word in words[:start] if "download" in word]:
            yield "command before", before[0]
        args = words[start + 4 :]
    else:
        yield "command", " ".join(command)
    yield from _flags(args)


def _flags(words: list[str]) -> Found:
    for index, word in enumerate(words):
        if not word.startswith("--"):
            continue
        flag, equals, value = word.partition("=")
        following = words[index + 1] if index + 1 < len(words) else "--"
        if not equals and not following.startswith("--"):
            value = following
        yield from _flag(flag, value)


def _flag(flag: str, value: str) -> Found:
    if not value.startswith("{"):
        yield f"flag {flag}", value or "set"
        return
    for key, item in json.loads(value).items():
        yield f"flag {flag} {key}", item if isinstance(item, str) else json.dumps(item)


def _probe(probe: Data, ports: Mapping[str, int]) -> str:
    get = probe["httpGet"]
    port = ports.get(get["port"], get["port"])
    return (
        f"GET {get['path']} on {port} every {probe['periodSeconds']} s, "
        f"waits {probe.get('timeoutSeconds', 1)} s, fails after {probe['failureThreshold']}"
    )


def _mounts(mounts: list[Data], volumes: list[Data]) -> Found:
    sources = {volume["name"]: _source(volume) for volume in volumes}
    for mount in mounts:
        below = f"/{mount['subPath']}" if "subPath" in mount else ""
        how = ", read-only" if mount.get("readOnly") else ""
        yield f"mount {mount['mountPath']}", f"{sources[mount['name']]}{below}{how}"


def _source(volume: Data) -> str:
    (kind,) = volume.keys() - {"name"}
    detail = volume[kind]
    named = detail.get("claimName") or detail.get("path") or detail.get("name")
    return f"{kind} {named or json.dumps(detail)}"


def _affinity(affinity: Data) -> Found:
    rule = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = rule["nodeSelectorTerms"]
    for item in term["matchExpressions"]:
        yield f"node {item['key']}", ", ".join(item["values"])


def _node_selector(labels: Data) -> Found:
    yield from ((f"node {key}", str(value)) for key, value in labels.items())


def _tolerations(items: list[Data]) -> Found:
    for item in items:
        words = (item["operator"], item.get("value", ""), item["effect"])
        yield f"toleration {item['key']}", " ".join(word for word in words if word)


def _pull_secrets(items: list[Data]) -> Found:
    yield "pod imagePullSecrets", ", ".join(item["name"] for item in items)


_POD: Mapping[str, Callable[[Any], Found]] = {
    "affinity": _affinity,
    "nodeSelector": _node_selector,
    "tolerations": _tolerations,
    "imagePullSecrets": _pull_secrets,
}
