"""Write the command line and environment of one engine process.

A replica is one process per node, of the same command: rank 0 serves and
registers, the others only compute. Who is which is left to Kubernetes, so that all
can be written down before any exists.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.errors import ConfigError
from fleet.model import Model
from fleet.release import Release, Role
from infra.engine_custom import custom_roles
from infra.engine_job import (
    DRAFT_MOUNT,
    POD_IP,
    SETTINGS_MOUNT,
    SYSTEM_PORT,
    WEIGHTS_MOUNT,
    EngineJob,
    EngineRole,
)
from infra.engine_sglang import sglang_roles
from infra.engine_trtllm import trtllm_roles
from infra.engine_vllm import vllm_env, vllm_roles

__all__ = [
    "DRAFT_MOUNT",
    "SETTINGS_MOUNT",
    "SYSTEM_PORT",
    "WEIGHTS_MOUNT",
    "EngineRole",
    "dynamo_env",
    "engine_env",
    "engine_roles",
]

_ENGINES = {"vllm": vllm_roles, "sglang": sglang_roles, "trtllm": trtllm_roles}


# Set from the pod itself, in the charts.
_PODS_OWN = ("POD_NAME", "POD_UID", "POD_NAMESPACE", "POD_IP", "NODE_NAME")


def engine_roles(
    model: Model,
    release: Release,
    role: Role = "aggregated",
    *,
    placed_by_operator: bool = False,
) -> tuple[EngineRole, EngineRole]:
    """Give the command of the leader and of the other nodes.

    `release` is the one that `release_for` gives for the role. With
    `placed_by_operator` rank, leader and number of nodes are left out.
    """
    job = EngineJob(model=model, release=release, role=role, placed_by_operator=placed_by_operator)
    if release.engine.custom is not None:
        return custom_roles(job, release.engine.custom)
    return _ENGINES[release.engine.kind](job)


def engine_env(
    release: Release, dynamo_namespace: str, place: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Give the environment of all nodes, the release's own variables last.

    `place` holds what depends on where the engine runs. It takes the place of the same variables
    of the release: they say where something lies, and never what is answered.
    """
    place = place or {}
    env = {
        **dynamo_env(dynamo_namespace),
        "DYN_SYSTEM_HOST": POD_IP,
        "DYN_SYSTEM_PORT": str(SYSTEM_PORT),
        # Dynamo 1.6.1 calls it deprecated and unused; without it /health stays at 503 for ever
        # (measured with the mocker), and no replica ever gets Ready.
        "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS": '["generate"]',
        # Its documentation also has DYN_WORKER_SHUTDOWN_INFLIGHT_TIMEOUT_SECS; no wheel reads it.
        "DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS": str(round(release.drain_s)),
        # Weights are on the node; a pod that reaches for the hub has the wrong revision.
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        **(vllm_env(release) if release.engine.kind == "vllm" else {}),
    }
    own = {name: value for name, value in release.env.items() if name not in place}
    return {**_merged(env, release.name, own), **place}


def dynamo_env(dynamo_namespace: str) -> dict[str, str]:
    """Give what frontends and engines need to find each other.

    Every address is the pod's own: Dynamo otherwise advertises the first
    interface that it finds, which on a node with several is a matter of luck.
    """
    return {
        "DYN_DISCOVERY_BACKEND": "kubernetes",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_NAMESPACE": dynamo_namespace,
        "DYN_TCP_RPC_HOST": POD_IP,
        "DYN_TCP_RESPONSE_STREAM_HOST": POD_IP,
        "DYN_EVENT_PLANE_HOST": POD_IP,
    }


def _merged(env: Mapping[str, str], release: str, own: Mapping[str, str]) -> dict[str, str]:
    """Add the release's variables, and refuse one that would hide ours.

    A second DYN_NAMESPACE, for example, splits the region: the frontend then
    draws one of the two parts at random and cache routing is lost.
    """
    ours = {*env, *_PODS_OWN, "DYN_NAMESPACE_WORKER_SUFFIX"}
    if doubled := sorted(ours & own.keys()):
        raise ConfigError(
            f"release {release}: env: {', '.join(doubled)} is set by k3fleet. "
            "Remove it from the release."
        )
    return {**env, **own}
