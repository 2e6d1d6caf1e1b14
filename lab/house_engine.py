"""Run a house engine in the lab: the command of its release, as it is.

vLLM and SGLang cannot run without GPUs, so a mocker stands for them. What a house engine needs
only its owners know, and they can put a build or a double of it on PATH: so its command is really
run, in both pods of a replica, with the rights of whoever started the lab. The image is not used.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.release import Release
from infra.engine import engine_roles
from lab.containers import Place, ProcessPlan, process_plan
from lab.network import loopback_address
from lab.node_context import NodeContext
from lab.pods import PodView

PYTHON = frozenset({"python", "python3"})
WEIGHTS_VOLUME = "weights"
LEADER_VARIABLE = "LWS_LEADER_ADDRESS"
MOST_NODES = 2  # of the LeaderWorkerSet double, which gives one rank to all other pods


def require_runnable(fleet: Fleet, path: str) -> None:
    """Raise ConfigError when a command of the fleet's house engine cannot be started here."""
    release = fleet.release
    where = f"{fleet.path}: release {release.name}"
    if release.nodes > MOST_NODES:
        raise ConfigError(
            f"{where}: {release.nodes} nodes; the lab gives ranks to {MOST_NODES}. "
            "Rehearse a copy of the release with fewer nodes."
        )
    for program in _programs(fleet, release):
        if not _is_here(program, path):
            raise ConfigError(
                f"{where}: engine.custom: the program {program!r} is not on this machine's PATH, "
                "and the lab really runs the command of a house engine, without its image. Put "
                "it, or a double of it, there, or rehearse a release of vllm or sglang."
            )


def house_engines(fleet: Fleet) -> frozenset[str]:
    """Name the releases of a fleet whose own command is run."""
    return frozenset() if fleet.release.engine.custom is None else frozenset({fleet.release_id})


def house_plan(pod: PodView, place: Place, node: NodeContext) -> ProcessPlan:
    """Say what to run for one pod of a house engine.

    `{weights}` becomes the lab's model folder, which has a configuration and a tokenizer and no
    weights. `{leader}` becomes an address, since programs of the lab ask no cluster DNS.
    """
    leader = _leader(pod, node)
    address = place.address if leader is None else loopback_address(leader.address or "")
    here = replace(
        place,
        volumes={WEIGHTS_VOLUME: node.settings.model_dir},
        env={LEADER_VARIABLE: address},
    )
    plan = process_plan(pod, here)
    program, *words = plan.argv
    if program in PYTHON:
        program = str(node.settings.python)
    return replace(plan, argv=(program, *words))


def may_join(pod: PodView, node: NodeContext) -> bool:
    """Tell whether the leader of a second pod has an address, as its init container waits for."""
    leader = _leader(pod, node)
    return leader is not None and leader.address is not None and not leader.deleting


def _leader(pod: PodView, node: NodeContext) -> PodView | None:
    """Return the leader of a replica's second pod; nothing for a leader."""
    return node.store.get(pod.name.rpartition("-")[0]) if pod.is_worker else None


def _is_here(program: str, path: str) -> bool:
    if "/" in program:  # a relative path would count from the folder of the pod
        return program.startswith("/") and shutil.which(program) is not None
    return program in PYTHON or shutil.which(program, path=path) is not None


def _programs(fleet: Fleet, release: Release) -> Iterator[str]:
    for role in engine_roles(fleet.model, release):
        yield role.command[0]
