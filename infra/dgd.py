"""Hand a replica to Dynamo's operator: backend `dgd`.

One DynamoGraphDeployment per replica, with one component. The operator starts
both ranks, tells them each other's address and makes the Service by which
frontends find the leader; what it would decide in another way than backend
`lws` is overridden here, so that a release answers the same on both. Read in
the operator's source of August 2026 (chart 1.5.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleet.errors import ConfigError
from fleet.release import Release, Role
from infra.engine_job import POD_IP, EngineRole

# One letter, because Grove counts it twice: replica name + component + `<component>-ldr` may
# have 45 characters, and a replica name has up to 39.
COMPONENT = "w"
COMPONENT_TYPES: Mapping[Role, str] = {
    "aggregated": "worker",
    "prefill": "prefill",
    "decode": "decode",
}

_VERSION = re.compile(r"(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})")

_REFERENCE = re.compile(r"\$\((\w+)\)")

# Where ranks are counted by Grove, the operator writes the command as one line for `sh`. It
# quotes words with one of the first set, but a dollar or a quote inside comes out wrong.
_QUOTED = re.compile(r"""[ \t\n"\\{}\[\]`!]""")
_MANGLED = re.compile(r"[$']")
_SHELL = re.compile(r"[;&|<>()]")
# TensorRT-LLM's words go through mpirun and two shells, and are quoted by nobody.
_PLAIN_WORD = re.compile(r"[\w./:=,@%+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorValues:
    """What the operator is told beside the pod."""

    framework: str
    component: str
    component_type: str
    # Our image tags name the engine's version, which the operator would take for Dynamo's.
    runtime_version: str
    env: Mapping[str, str]
    pod_ip_env: tuple[str, ...]  # variables that hold the pod's own address


def operator_values(release: Release, role: Role, env: Mapping[str, str]) -> OperatorValues:
    """Compute what the operator is told about a release, whose variables are `env`."""
    version = release.dynamo.version
    if not _VERSION.fullmatch(version):
        raise ConfigError(
            f"release {release.name}: dynamo.version: {version!r} is not MAJOR.MINOR.PATCH, which "
            "backend dgd needs. Write for example 1.6.1."
        )
    return OperatorValues(
        framework=release.engine.kind,
        component=COMPONENT,
        component_type=COMPONENT_TYPES[role],
        runtime_version=version,
        env=_undone(release) | _literal(release, env),
        pod_ip_env=tuple(name for name, value in env.items() if value == POD_IP),
    )


def _undone(release: Release) -> dict[str, str]:
    """Give the variables that undo the operator's own; an empty value is a value."""
    # A suffix made of a hash would give each replica a Dynamo namespace of its own: frontends
    # then draw one at random, and cache routing and session affinity are lost.
    env = {"DYN_NAMESPACE_WORKER_SUFFIX": ""}
    if release.engine.kind == "sglang":
        # Off, as in the public SGLang recipes. vLLM in Dynamo 1.6.1 refuses an empty port.
        env["DYN_FORWARDPASS_METRIC_PORT"] = ""
    return env


def _literal(release: Release, env: Mapping[str, str]) -> dict[str, str]:
    """Give the variables whose values are text.

    The operator sorts variables by name, and Kubernetes fills in only what stands
    before: a `$(POD_IP)` in DYN_SYSTEM_HOST would stay as it is.
    """
    literal = {name: value for name, value in env.items() if value != POD_IP}
    for name, value in literal.items():
        if any(other >= name for other in _REFERENCE.findall(value)):
            raise ConfigError(
                f"release {release.name}: env: {name}: {value!r} names a variable that Dynamo's "
                "operator sorts behind it, so it would not be filled in. Write the value itself, "
                "or use backend: lws."
            )
    return literal


def operator_leader(release: Release, leader: EngineRole) -> EngineRole:
    """Give the command that the operator makes both ranks' commands of."""
    kind = release.engine.kind
    args = leader.args
    if kind == "vllm" and not any(word.startswith("--scheduler-cls") for word in args):
        # The operator asks for metrics of each step, for which Dynamo puts a scheduler of its
        # own into vLLM; one made for another vLLM fails on the first request. As all public
        # vLLM recipes for K3.
        args = (*args, "--scheduler-cls", "vllm.v1.core.sched.async_scheduler.AsyncScheduler")
    for word in (*leader.command, *args):
        _check_word(release, word)
    return replace(leader, args=args)


def _check_word(release: Release, word: str) -> None:
    if release.engine.kind == "trtllm":
        survives = bool(_PLAIN_WORD.fullmatch(word))
    else:
        survives = not _MANGLED.search(word) and bool(
            _QUOTED.search(word) or not _SHELL.search(word)
        )
    if not survives:
        raise ConfigError(
            f"release {release.name}: argument {word!r} does not survive the shell of Dynamo's "
            "operator. Use a form without shell characters, or backend: lws."
        )
