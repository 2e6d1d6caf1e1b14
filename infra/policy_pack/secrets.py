"""No secret goes through Pulumi: it would be in the state, and in every copy of it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.credentials import credential_shape, names_credential
from infra.lint.pods import workloads
from infra.policy_pack.kubernetes import manifest_of
from infra.policy_pack.resource import UNKNOWN, Config, Fault, Faults, Policy, Resource

_ELSEWHERE = "Name a Secret: valueFrom.secretKeyRef; and change what was in clear"
_EXTERNAL = "Let the External Secrets operator make it (secrets.external_store of the fleet file)"


def _bodies(resource: Resource, _config: Config) -> Faults:
    if resource.type != "kubernetes:core/v1:Secret":
        return
    # A token that the cluster fills in has no body here.
    if resource.at("type") == "kubernetes.io/service-account-token":
        return
    filled = [key for key in ("data", "stringData") if resource.at(key)]
    if filled:
        yield Fault(resource, f"a Secret with its {filled[0]} in the state", _EXTERNAL)


def _environment(resource: Resource, _config: Config) -> Faults:
    manifest = manifest_of(resource)
    for workload in workloads(manifest) if manifest else ():
        for template in workload.templates:
            for container in template.all_containers():
                for name, value, _ in container.env_entries():
                    if value and _is_secret(name, value):
                        what = f"{name} of container {container.name} holds a credential in clear"
                        yield Fault(resource, what, _ELSEWHERE)


def _is_secret(name: str, value: str) -> bool:
    if "$(" in value or value == UNKNOWN:  # made of other variables
        return False
    return credential_shape(value) is not None or names_credential(name)


def _elsewhere(resource: Resource, _config: Config) -> Faults:
    """Find credentials by their shape in every other input: user data, policies, annotations."""
    for path, text in _texts(resource.props, ""):
        shape = credential_shape(text) or credential_shape(_decoded(text))
        if shape:
            yield Fault(resource, f"{path} looks like {shape}", "Keep it in a secret store")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value


def _decoded(text: str) -> str:
    """Read what user data and Secrets are written in."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


POLICIES = (
    Policy(name="no-secret-bodies", title="No Secret has its body in the state", one=_bodies),
    Policy(
        name="no-credentials-in-variables",
        title="Variables of containers hold no credentials",
        one=_environment,
    ),
    Policy(
        name="no-credentials", title="No input of a resource holds a credential", one=_elsewhere
    ),
)
