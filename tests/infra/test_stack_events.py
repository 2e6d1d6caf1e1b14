"""Reading what the Pulumi engine says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.stack_events import SHOWN_CHARACTERS, Outcome, Touched, outcome, read_outcome


def error(message: str, urn: str = "") -> str:
    return json.dumps({"diagnosticEvent": {"severity": "error", "message": message, "urn": urn}})


def test_a_log_that_ends_in_the_middle_gives_what_it_holds() -> None:
    """A killed engine leaves half a line."""
    assert outcome([error("first"), '{"summaryEv']).errors == ("first",)


def test_no_log_is_no_outcome(tmp_path: Path) -> None:
    """The command line can fail before there is an engine."""
    assert read_outcome(tmp_path / "none") == Outcome()


def test_echoes_of_a_failure_are_left_out() -> None:
    """ "update failed" tells nobody why."""
    echo = "an unhandled error occurred: Program exited with non-zero exit code: 1"
    assert outcome([error("the cause"), error(echo), error("update failed")]).errors == (
        "the cause",
    )


def test_a_quoted_object_is_cut() -> None:
    """A Kubernetes error may repeat a whole object, secrets included."""
    assert len(outcome([error("x" * 10_000)]).errors[0]) == SHOWN_CHARACTERS


def test_warnings_are_no_errors() -> None:
    """Every run warns that it takes its tools from PATH."""
    line = json.dumps({"diagnosticEvent": {"severity": "warning", "message": "from PATH"}})
    assert outcome([line]).errors == ()


def test_an_api_servers_answer_is_not_buried() -> None:
    """The provider wraps it in the object's whole URN."""
    urn = "urn:pulumi:s::p::kubernetes:core/v1:Service::Service/k3/engines"
    wrapped = (
        f'Preview failed: resource "{urn}" was not successfully created by the '
        'Kubernetes API server: namespaces "k3" not found'
    )
    assert outcome([error(wrapped, urn)]).errors == (
        'Service/k3/engines: namespaces "k3" not found',
    )


def step(operation: str, kind: str, name: str) -> str:
    urn = f"urn:pulumi:s::p::{kind}::{name}"
    metadata = {"op": operation, "type": kind, "urn": urn}
    return json.dumps({"resourcePreEvent": {"metadata": metadata}})


def test_what_an_update_touches_is_named() -> None:
    """Only our objects, only those that change, each once: an operator reads it."""
    workload = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    update = step("update", workload, "LeaderWorkerSet/k3/r01-0")
    lines = [
        step("same", "kubernetes:core/v1:Service", "Service/k3/engines"),
        step("refresh", "kubernetes:core/v1:Service", "Service/k3/engines"),
        step("update", "pulumi:providers:kubernetes", "kubernetes"),
        update,
        update,
        step("delete-replaced", "kubernetes:core/v1:ConfigMap", "ConfigMap/k3/engine-1"),
    ]
    assert outcome(lines).touched == (
        Touched(operation="update", kind="LeaderWorkerSet", name="LeaderWorkerSet/k3/r01-0"),
        Touched(operation="delete-replaced", kind="ConfigMap", name="ConfigMap/k3/engine-1"),
    )


def test_what_a_policy_forbids_is_the_cause() -> None:
    """The engine itself only says "preview failed"; advice stops nobody."""
    urn = "urn:pulumi:s::p::kubernetes:core/v1:Service::Service/k3/a"
    said = {"resourceUrn": urn, "message": "No\npublic ports.", "policyName": "ports"}
    forbidden = json.dumps({"policyEvent": {**said, "enforcementLevel": "mandatory"}})
    advice = json.dumps({"policyEvent": {**said, "enforcementLevel": "advisory"}})
    found = outcome([forbidden, advice, error("preview failed\n")])
    assert found.errors == ("Service/k3/a: policy ports: No: public ports.",)


@pytest.mark.parametrize("kind", ["summaryEvent", "diagnosticEvent", "resOutputsEvent"])
@pytest.mark.parametrize("odd", ["x", [1], {"resourceChanges": "x"}, {"metadata": [1]}, None])
def test_an_event_of_another_shape_is_passed_over(kind: str, odd: object) -> None:
    """It must not end the reading of an update that has changed a cluster."""
    assert outcome([json.dumps({kind: odd}), "[" * 5000]).changes == {}


@pytest.mark.parametrize(
    "metadata", ["x", {"old": "x"}, {"detailedDiff": ["x"]}, {"detailedDiff": {"spec": 1}}]
)
def test_a_step_of_another_shape_does_not_end_the_reading(metadata: object) -> None:
    """What can be read of it is told, so that a guard still sees it."""
    [step] = outcome([json.dumps({"resourcePreEvent": {"metadata": metadata}})]).touched
    assert not step.protected


def test_what_is_blocked_is_named_by_a_whole_urn_only() -> None:
    """Its parts decide what may be let go."""
    told = error("because it is protected", "zzz")
    assert outcome([told]).blocked == ()


OBJECT = {
    "type": "kubernetes:core/v1:Service",
    "urn": "urn:pulumi:s::p::kubernetes:core/v1:Service::Service/k3/engines",
    "inputs": {"spec": {"ports": []}},
}
STACK = {"type": "pulumi:pulumi:Stack", "urn": "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"}
ENDED = {"summaryEvent": {"result": "succeeded", "resourceChanges": {"same": 2}}}


def seen(op: str, old: dict[str, object], **new: object) -> list[dict[str, Any]]:
    """Give what the engine says of one resource, before and after its provider was asked."""
    known = {"op": op, "type": old["type"], "urn": old["urn"], "old": old, "new": {**old, **new}}
    return [{"resourcePreEvent": {"metadata": known}}, {"resOutputsEvent": {"metadata": known}}]


@pytest.mark.parametrize(
    ("steps", "idle"),
    [
        ([], True),
        (seen("read", {**OBJECT, "outputs": {}}, outputs={"metadata": {}}), True),
        (seen("same", OBJECT), True),
        (seen("same", OBJECT, protect=True), False),
        (seen("same", OBJECT, retainOnDelete=True), False),
        (seen("same", OBJECT, inputs={"spec": {}}), False),
        (seen("same", {**OBJECT, "urn": f"{OBJECT['urn']}-old"}, urn=OBJECT["urn"]), False),
        (seen("update", OBJECT), False),
        (seen("refresh", OBJECT), False),
        (seen("same", {**STACK, "outputs": {"serial": 1}}, outputs={"serial": 2}), False),
    ],
)
def test_idle_is_only_what_leaves_the_state_as_it_is(
    steps: list[dict[str, Any]], idle: bool
) -> None:
    """The engine calls an object the same when only its protection or its name in Pulumi changes.

    The next update would stumble over a state that was never told.
    """
    events = [*steps, *seen("same", {**STACK, "outputs": {"serial": 1}}), ENDED]
    assert outcome(map(json.dumps, events)).idle is idle


@pytest.mark.parametrize("events", [[], [ENDED], seen("same", STACK), [*seen("same", STACK), {}]])
def test_what_was_cut_off_is_not_idle(events: list[dict[str, Any]]) -> None:
    """Nobody knows what the rest would have said."""
    assert not outcome(map(json.dumps, events)).idle
