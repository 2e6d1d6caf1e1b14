"""Find what a release says that k3fleet says already: flags, variables, folders.

Engines take the last of two flags and a container the last of two variables, so that
the plan would be about one value and the replicas run with the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fleet.engine_args import flag_name
from fleet.engine_flags import FIELD_FLAGS, PLACED_FLAGS, WORKER_FLAGS, engine_version
from fleet.errors import Problem
from fleet.flag_words import Use
from fleet.given_flags import given_flags
from fleet.release import Release, moves
from fleet.schema import found_text
from fleet.yaml_document import Document, NodePath

# vLLM from this version on has a flag for what it read from a variable before.
VLLM_RETENTION_FLAG_SINCE = (0, 29)
# What Kubernetes or the LeaderWorkerSet controller sets; a name that ends in `_` is a family.
_PODS_OWN = frozenset({"POD_NAME", "POD_UID", "POD_NAMESPACE", "POD_IP", "NODE_NAME", "LWS_"})
_OURS = frozenset(
    {
        "DYN_DISCOVERY_BACKEND",
        "DYN_REQUEST_PLANE",
        "DYN_EVENT_PLANE",
        "DYN_NAMESPACE",
        "DYN_NAMESPACE_WORKER_SUFFIX",
        "DYN_TCP_RPC_HOST",
        "DYN_TCP_RESPONSE_STREAM_HOST",
        "DYN_EVENT_PLANE_HOST",
        "DYN_SYSTEM_HOST",
        "DYN_SYSTEM_PORT",
        "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS",
        "DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
    }
)
# What the API server takes, without what no shell can set.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def own_setting_problems(document: Document, release: Release) -> Iterator[Problem]:
    """Find flags, variables and folders that are not a release's to choose."""
    ours = own_variables(release)
    for path, env, args in _parts(release):
        yield from _variable_problems(document, (*path, "env"), env, ours)
        yield from _argument_problems(document, (*path, "args"), args, release)
    revisions = {"weights": release.weights.revision}
    if release.speculation is not None:
        revisions["speculation"] = release.speculation.revision
    for section, revision in revisions.items():
        if not moves(revision) and not names_folder(revision):
            what = f"{found_text(revision)} cannot name a folder, in which these weights lie"
            fix = "Use letters, digits, dots, dashes and underscores, for example a commit"
            yield document.problem((section, "revision"), what, fix)


def own_variables(release: Release) -> frozenset[str]:
    """Name the variables that k3fleet sets for the engine of a release, whatever the place."""
    names = _OURS | _PODS_OWN
    if release.engine.kind != "vllm":
        return names
    if release.disaggregation:
        names |= {"VLLM_SSM_CONV_STATE_LAYOUT", "VLLM_NIXL_SIDE_CHANNEL_HOST"}
    if (
        release.state_interval is not None
        and engine_version(release.engine.version) < VLLM_RETENTION_FLAG_SINCE
    ):
        names |= {"VLLM_PREFIX_CACHE_RETENTION_INTERVAL"}
    return names


def names_folder(revision: str) -> bool:
    """Say whether a revision can be the name of the folder that holds its weights."""
    return _FOLDER.fullmatch(revision) is not None


def _parts(release: Release) -> Iterator[tuple[NodePath, Mapping[str, str], tuple[str, ...]]]:
    yield (), release.env, release.args
    if pools := release.disaggregation:
        yield ("disaggregation", "prefill"), pools.prefill.env, pools.prefill.args
        yield ("disaggregation", "decode"), pools.decode.env, pools.decode.args


def _variable_problems(
    document: Document, path: NodePath, env: Mapping[str, str], ours: frozenset[str]
) -> Iterator[Problem]:
    families = tuple(name for name in ours if name.endswith("_"))
    for name in env:
        if not _VARIABLE.fullmatch(name):
            what = f"{found_text(name)} is no name of a variable, the API server would refuse it"
            fix = "Use letters, digits and underscores, and start with a letter"
            yield document.problem((*path, name), what, fix)
        elif name in ours or name.startswith(families):
            what = f"{name} is set by k3fleet"
            yield document.problem((*path, name), what, "Remove it from the release")


def _argument_problems(
    document: Document, path: NodePath, args: tuple[str, ...], release: Release
) -> Iterator[Problem]:
    kind = release.engine.kind
    owned = PLACED_FLAGS.union(FIELD_FLAGS[kind].values())
    version: str | None = release.engine.version
    if kind == "custom":
        version = None
    else:
        owned |= WORKER_FLAGS
    flags = given_flags(f"dynamo.{kind}", args, version, release.dynamo.version)
    for use in flags.uses:
        if doubled := sorted(_meant(use) & owned):
            spelled = "" if use.spelled in doubled else f" ({use.spelled})"
            what = f"args repeat what typed fields decide: {doubled[0]}{spelled}"
            yield document.problem(
                (*path, use.index), what, "Remove it from args and set the field"
            )


def _meant(use: Use) -> frozenset[str]:
    """Give every name of the flag that a word is, or may be."""
    known = (*use.flag.names, *use.flag.negative) if use.flag else ()
    return frozenset((use.name, flag_name(use.spelled), *use.meant, *known))
