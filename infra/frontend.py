"""Write the command line and environment of a region's Dynamo frontends."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from fleet.load import Fleet
from fleet.release import Release, Tokenizer
from fleet.release_set import release_set
from fleet.router import RouterSpec
from infra.engine import dynamo_env
from infra.options import Options

PORT = 8000
# The Service of all frontends of a region; those of a set have the set's name behind it.
SERVICE = "frontend"
# What a set's frontends consist of, beside ConfigMaps.
KINDS = ("Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler")
# The gateway looks names up every 2 s; twice that, and a second.
PRE_STOP_S = 5
POLICY_MOUNT = "/etc/dynamo"
POLICY_FILE = "router-policy.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """The router's settings file; a changed one gets a new name, and so restarts the pods."""

    config_map: str
    file: str
    text: str
    mount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendValues:
    """The frontends of a set of releases; all its replicas are behind each of them."""

    name: str
    set: str
    replicas: int
    image: str
    dynamo_version: str
    port: int
    args: tuple[str, ...]
    env: Mapping[str, str]
    policy: PolicyFile | None
    grace_s: int
    pre_stop_s: int


def frontend_name(set_: str) -> str:
    """Name the objects of a set's frontends."""
    return f"{SERVICE}-{set_}"


def frontend_values(
    fleet: Fleet, release: Release, dynamo_namespace: str, options: Options
) -> FrontendValues:
    """Compute the frontends of a set from the fleet's router settings and a release of the set.

    All sets get as many: sessions move from one to the other, up to all of them.
    """
    drain_s = math.ceil(release.drain_s)
    cache_bytes = release.frontend.tokenizer_cache_bytes
    router = fleet.spec.router or release.router
    set_ = release_set(release)
    return FrontendValues(
        name=frontend_name(set_),
        set=set_,
        replicas=fleet.spec.frontends.replicas,
        image=release.dynamo.image,
        dynamo_version=release.dynamo.version,
        port=PORT,
        args=_args(router, options.tokenizer or release.frontend.tokenizer),
        env={
            **dynamo_env(dynamo_namespace),
            # Dynamo's default of 5 s cuts streams that the pod has time to finish.
            "DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS": str(drain_s),
            **({"DYN_TOKENIZER_CACHE_BYTES": str(cache_bytes)} if cache_bytes else {}),
            "HOME": "/tmp",  # noqa: S108 - an emptyDir of the pod
        },
        policy=_policy(router),
        grace_s=PRE_STOP_S + drain_s + 10,
        pre_stop_s=PRE_STOP_S,
    )


def _policy(router: RouterSpec) -> PolicyFile | None:
    if not router.policy:
        return None
    text = yaml.safe_dump(router.policy, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return PolicyFile(
        config_map=f"router-policy-{digest}", file=POLICY_FILE, text=text, mount=POLICY_MOUNT
    )


def _args(router: RouterSpec, tokenizer: Tokenizer) -> tuple[str, ...]:
    affinity: tuple[str, ...] = ()
    if router.session_affinity != "off":
        affinity = (
            "--router-session-affinity-ttl-secs",
            str(round(router.session_affinity_ttl_s)),
            "--router-session-affinity-mode",
            router.session_affinity,
        )
    policy = ("--router-policy-config", f"{POLICY_MOUNT}/{POLICY_FILE}") if router.policy else ()
    return (
        "--http-host",
        "$(POD_IP)",
        "--http-port",
        str(PORT),
        "--router-mode",
        router.mode,
        *affinity,
        *policy,
        "--migration-limit",
        str(router.migration_limit),
        # With the default tokenizer every K3 chat is an error, so never fall back to it.
        "--tokenizer",
        tokenizer,
        "--no-tokenizer-fallback",
    )
