"""Admission policies: what the API server refuses, and what it must let pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from policy_cases import policy_cases, stage_cases

from fleet.load import Fleet
from infra.options import Layer, Options
from infra.policies import AdmissionPolicy, Rule, admission_policies
from infra.render import KubeObject, render_region

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
STAGED = {"weights_stage": {"image": "registry.example/hf@sha256:" + "0" * 64}}


def rendered(fleet: Fleet, kind: str) -> list[KubeObject]:
    layers: tuple[Layer, ...] = ("platform", "serving")
    objects = [item for layer in layers for item in render_region(fleet, "us-east", layer)]
    return [item for item in objects if item["kind"] == kind]


def policies(fleet: Fleet) -> list[AdmissionPolicy]:
    return list(admission_policies(fleet, "k3", None, Options()))


@pytest.mark.parametrize("backend", ["lws", "dgd"])
def test_every_rule_has_a_case(make_fleet: MakeFleet, backend: str) -> None:
    """tests/e2e/test_apply.py has the API server refuse the cases; a rule without one may never."""
    fleet = make_fleet(SMALL, backend=backend, **STAGED)
    cases: dict[str, set[str | None]] = {"nodes": {case.rule for case in stage_cases()} - {None}}
    for case in policy_cases():
        cases.setdefault(f"{case.kind.lower()}s", set()).add(case.rule)
    for policy in rendered(fleet, "ValidatingAdmissionPolicy"):
        (resource,) = policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"]
        rules = [item["message"].partition(":")[0] for item in policy["spec"]["validations"]]
        assert len(rules) == len(set(rules))
        assert set(rules) == cases[resource]


def test_the_operators_own_objects_are_left_alone(make_fleet: MakeFleet) -> None:
    """With backend dgd the operator makes LeaderWorkerSets that keep other rules."""
    fleet = make_fleet(SMALL, backend="dgd")
    assert [policy.resource for policy in policies(fleet)] == [
        "dynamographdeployments",
        "computedomains",
    ]


def test_policies_hold_in_our_namespace_only(make_fleet: MakeFleet) -> None:
    """Other teams' LeaderWorkerSets are none of our business."""
    for binding in rendered(make_fleet(SMALL), "ValidatingAdmissionPolicyBinding"):
        selector = binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]
        assert selector == {"kubernetes.io/metadata.name": "k3"}


def test_the_weights_stage_is_bound_to_its_account(make_fleet: MakeFleet) -> None:
    """Its policy is about nodes: for anybody else it must not even be evaluated."""
    fleet = make_fleet(SMALL, **STAGED)
    policy = next(
        item
        for item in rendered(fleet, "ValidatingAdmissionPolicy")
        if item["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == ["nodes"]
    )
    condition = policy["spec"]["matchConditions"][0]["expression"]
    assert condition == "request.userInfo.username == 'system:serviceaccount:k3:weights-stage'"
    binding = rendered(fleet, "ClusterRoleBinding")[0]
    assert binding["subjects"][0]["name"] == "weights-stage"
    assert rendered(fleet, "ClusterRole")[0]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}
    ]


def test_every_message_says_what_to_do(make_fleet: MakeFleet) -> None:
    """It is all that a person sees of the rule."""
    rules: list[Rule] = [rule for policy in policies(make_fleet(SMALL)) for rule in policy.rules]
    for rule in rules:
        assert rule.message.count(". ") + rule.message.count(": ") >= 1, rule.id
        assert rule.message.endswith("."), rule.id
