"""What is right and wrong in a region during a rollout."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleet.load import Fleet
from fleet.rollout.counters import Counts, FirstTokens, PromptTokens, ReplicaCounts
from fleet.rollout.strategy import Floor
from infra.render import render_region
from infra.rollout.checks import (
    EnginePod,
    differs,
    floor_broken,
    pods_missing,
    touches_others,
    weights_missing,
)
from infra.rollout.metrics import counts_of, replica_counts_of
from infra.stack_events import Touched

RACKS = {"a-0": "a", "a-1": "a", "a-2": "a", "b-0": "b"}
POD = EnginePod(
    name="a-0-0",
    uid="u",
    replica="a-0",
    rack="a",
    release="new",
    leader=True,
    phase="Running",
    ready=True,
    deleting=False,
    routed=True,
    address="10.0.0.1",
)


@pytest.mark.parametrize(
    ("serving", "step", "floor", "wrong"),
    [
        (RACKS, ["a-0"], Floor(rack=0.6, region=0.7), ""),
        (RACKS, ["a-0"], Floor(rack=0.6, region=0.8), "3 of 4 replicas would serve"),
        (["a-0", "a-1", "b-0"], ["a-0"], Floor(rack=0.5, region=0.5), "rack a: 1 of 3"),
        (RACKS, ["b-0"], Floor(rack=0.5, region=0.5), "rack b: 0 of 1"),
        # It does not serve, so turning it back takes nothing away.
        (["a-1"], ["a-0"], Floor(rack=0.9, region=0.9), ""),
    ],
)
def test_the_floor_counts_who_stays(
    serving: list[str], step: list[str], floor: Floor, wrong: str
) -> None:
    """In the region and in each rack of the step."""
    found = floor_broken(list(serving), RACKS, step, floor)
    assert found.startswith(wrong) if wrong else found == ""


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({}, ""),
        ({"ready": False}, "a-0: its leader is not Ready"),
        ({"phase": "Pending"}, "a-0: 1 of 2 pods run"),
        ({"release": "old"}, "a-0: 1 of 2 pods run"),
        ({"deleting": True}, "a-0: 1 of 2 pods run"),
    ],
)
def test_a_replica_is_ready_with_all_its_pods(changed: dict[str, Any], missing: str) -> None:
    """A leader of the old release that still runs must not count for the new one."""
    worker = replace(POD, name="a-0-0-1", leader=False, ready=True)
    pods = [replace(POD, **changed), worker]
    assert pods_missing(pods, ["a-0"], "new", 2) == missing


@pytest.mark.parametrize(
    ("operation", "kind", "name", "fine"),
    [
        ("update", "LeaderWorkerSet", "LeaderWorkerSet/k3/a-0", True),
        ("create", "ConfigMap", "ConfigMap/k3/engine-1", True),
        ("delete", "ConfigMap", "ConfigMap/k3/engine-0", True),
        ("update", "LeaderWorkerSet", "LeaderWorkerSet/k3/a-1", False),
        ("replace", "LeaderWorkerSet", "LeaderWorkerSet/k3/a-0", False),
        ("delete", "LeaderWorkerSet", "LeaderWorkerSet/k3/a-0", False),
        ("update", "Deployment", "Deployment/k3/frontend", False),
        ("delete", "Service", "Service/k3/engines", False),
    ],
)
def test_an_update_may_only_touch_its_step(
    operation: str, kind: str, name: str, fine: bool
) -> None:
    """A fleet file that was edited meanwhile would otherwise roll the whole region at once."""
    item = Touched(operation=operation, kind=kind, name=name)
    assert touches_others([item], ["a-0"]) == ("" if fine else f"{operation} {kind} {name}")


def _change(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(live: dict[str, Any]) -> None:
        pod = live["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        pod["spec"]["containers"][0][path] = value

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [("image", "other"), ("command", ["sh"]), ("args", ["--x"]), ("env", [])],
)
def test_a_replica_that_differs_from_its_release_is_seen(
    demo: Fleet, path: str, value: object
) -> None:
    """Whatever Pulumi believes: after a cancelled update it says "unchanged"."""
    rendered = next(
        item
        for item in render_region(demo, "us-east", "serving")
        if item["kind"] == "LeaderWorkerSet"
    )
    live = copy.deepcopy(rendered)
    template = live["spec"]["leaderWorkerTemplate"]
    for pod in (template["leaderTemplate"], template["workerTemplate"]):
        for entry in pod["spec"]["containers"][0]["env"]:
            if "valueFrom" in entry:  # as an API server fills it in
                entry["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    assert differs(live, rendered) == ""
    _change(path, value)(live)
    assert differs(live, rendered) == f"workerTemplate: main: {path} is not the release's"


def test_the_release_label_of_the_live_object_counts(demo: Fleet) -> None:
    """Two releases can render to the same command."""
    rendered = next(
        item
        for item in render_region(demo, "us-east", "serving")
        if item["kind"] == "LeaderWorkerSet"
    )
    live = copy.deepcopy(rendered)
    live["metadata"]["labels"]["k3fleet.io/release"] = "other"
    assert differs(live, rendered) == f"release other, not {demo.release_id}"


METRICS = """\
# TYPE dynamo_frontend_requests_total counter
dynamo_frontend_requests_total{error_type="",model="m",status="success"} 90
dynamo_frontend_requests_total{error_type="internal",model="m",status="error"} 3
dynamo_frontend_requests_total{error_type="validation",model="m",status="error"} 7
dynamo_frontend_inflight_requests{model="m"} 4
dynamo_frontend_input_sequence_tokens_sum{model="m"} 25327
dynamo_frontend_cached_tokens_sum{model="m"} 18432
"""
# As a worker of Dynamo 1.6.1 publishes it: vLLM's names beside those of the runtime.
ENGINE = """\
dynamo_component_requests_total{dynamo_endpoint="generate"} 8
vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="0.02"} 32
vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="0.04"} 36
vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="+Inf"} 37
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.75
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 37
"""


def test_a_clients_own_mistakes_are_not_the_releases() -> None:
    """Else one script with a typo would stop every rollout."""
    tokens = PromptTokens(prompt=25327, cached=18432)
    assert counts_of(METRICS) == Counts(requests=93, errors=3, tokens=tokens)


@pytest.mark.parametrize(
    ("more", "tokens"),
    [
        ("", None),
        (
            """\
vllm:prefix_cache_queries_total 100
vllm:prefix_cache_hits_total 60
vllm:external_prefix_cache_hits_total 5
""",
            PromptTokens(prompt=100, cached=65),
        ),
        (
            """\
sglang:prompt_tokens_total 50
sglang:cached_tokens_total{cache_source="device"} 30
sglang:cached_tokens_total{cache_source="host"} 4
""",
            PromptTokens(prompt=50, cached=34),
        ),
    ],
)
def test_an_engine_is_read_by_its_own_names(more: str, tokens: PromptTokens | None) -> None:
    """And what it does not publish is not known, which is not zero."""
    found = replica_counts_of(ENGINE + more)
    buckets = {0.02: 32.0, 0.04: 36.0, math.inf: 37.0}
    assert found.first_tokens == FirstTokens(answers=37, seconds=0.75, buckets=buckets)
    assert found.tokens == tokens
    assert replica_counts_of("up 1") == ReplicaCounts()


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ({"n1": {"w/abc": "ready"}, "n2": {"w/abc": "ready"}}, ""),
        ({"n1": {"w/abc": "ready"}, "n2": {}}, "node n2 does not have abc"),
        ({"n1": {"w/abc": "staging"}, "n2": {"w/abc": "ready"}}, "node n1 does not have abc"),
        ({"n2": {"w/abc": "ready"}}, ""),
    ],
)
def test_weights_have_to_be_whole_on_the_nodes_of_the_step(
    labels: dict[str, dict[str, str]], missing: str
) -> None:
    """Other nodes may still load; a node that is gone is nothing to wait for."""
    pods = [replace(POD, node="n1"), replace(POD, node="n2"), replace(POD, replica="x", node="n3")]
    assert weights_missing(pods, {**labels, "n3": {}}, {POD.replica}, {"w/abc": "ready"}) == missing
