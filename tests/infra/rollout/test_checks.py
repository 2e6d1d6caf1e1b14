"""What is right and wrong in a region during a rollout."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleet.load import Fleet
from fleet.rollout.strategy import Floor, Gates
from infra.render import render_region
from infra.rollout.checks import (
    Counts,
    EnginePod,
    counted_since,
    differs,
    floor_broken,
    gate_broken,
    pods_missing,
    too_few,
    touches_others,
)
from infra.rollout.metrics import counts_of
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
"""


def test_a_clients_own_mistakes_are_not_the_releases() -> None:
    """Else one script with a typo would stop every rollout."""
    assert counts_of(METRICS) == Counts(requests=93, errors=3)


def test_what_was_before_does_not_count_and_a_restart_starts_anew() -> None:
    """A frontend that came anew has counted from zero."""
    before = {"a": Counts(requests=100, errors=50), "b": Counts(requests=80, errors=8)}
    now = {
        "a": Counts(requests=110, errors=51),
        "b": Counts(requests=5, errors=0),
        "c": Counts(requests=7, errors=2),
    }
    assert counted_since(before, now) == Counts(requests=22, errors=3)


def test_gates_want_enough_requests_and_few_errors() -> None:
    """Ten requests without an error say nothing about one in two hundred."""
    gates = Gates(min_requests=100, max_error_rate=0.02)
    assert too_few(Counts(requests=99), gates) == "99 of 100 requests that the gates need"
    assert too_few(Counts(requests=100), gates) == ""
    assert gate_broken(Counts(requests=100, errors=2), gates) == ""
    assert gate_broken(Counts(requests=100, errors=3), gates).startswith("max_error_rate: 3 errors")
