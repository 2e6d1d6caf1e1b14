"""Admission policies: what the API server refuses, and what it must let pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import celpy
import pytest
from celpy import celtypes

from fleet.load import Fleet
from fleet.plan import make_plan
from infra.options import Layer, Options
from infra.policies import AdmissionPolicy, Rule, admission_policies
from infra.render import KubeObject, render_region
from infra.staging import staging_values

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
STAGED = {"weights_stage": {"image": "registry.example/hf@sha256:" + "0" * 64}}
Change = Callable[[dict[str, Any]], None]


def rendered(fleet: Fleet, kind: str) -> list[KubeObject]:
    layers: tuple[Layer, ...] = ("platform", "serving")
    objects = [item for layer in layers for item in render_region(fleet, "us-east", layer)]
    return [item for item in objects if item["kind"] == kind]


def policies(fleet: Fleet) -> list[AdmissionPolicy]:
    return list(admission_policies(fleet, "k3", None, Options()))


def leader(item: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = item["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
    return spec


# What a person might apply by hand, and the rule that must name it.
BROKEN: Mapping[str, tuple[str, Change]] = {
    "three nodes": ("K001", lambda x: x["spec"]["leaderWorkerTemplate"].update(size=3)),
    "half the GPUs": (
        "K001",
        lambda x: leader(x)["containers"][0]["resources"]["limits"].update({"nvidia.com/gpu": "2"}),
    ),
    "another rack for the leader": (
        "K002",
        lambda x: leader(x)["nodeSelector"].update({"k3fleet.io/rack": "use1-r02"}),
    ),
    "no rack": ("K002", lambda x: leader(x).pop("nodeSelector")),
    "a surge": (
        "K003",
        lambda x: x["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"].update(maxSurge=1),
    ),
    "a surge in percent": (
        "K003",
        lambda x: x["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"].update(maxSurge="5%"),
    ),
    "a rack of its own": (
        "K004",
        lambda x: x["metadata"].update(
            annotations={"leaderworkerset.sigs.k8s.io/exclusive-topology": "k3fleet.io/rack"}
        ),
    ),
    "tolerates everything": (
        "K008",
        lambda x: leader(x)["tolerations"].append({"operator": "Exists"}),
    ),
    "a long name": ("K013", lambda x: x["metadata"].update(name="x" * 40)),
    "an image by tag": (
        "K014",
        lambda x: leader(x)["containers"][0].update(image="vllm/vllm-openai:v0.29.0"),
    ),
}


def refused(policy: AdmissionPolicy, item: Mapping[str, Any], **more: Any) -> list[str]:
    """Evaluate a policy as the API server does; `more` are oldObject and request."""

    def evaluate(expression: str, context: dict[str, Any]) -> Any:
        environment = celpy.Environment()
        return environment.program(environment.compile(expression)).evaluate(context)

    given = {"object": item, **more}
    context = {name: celpy.json_to_cel(value) for name, value in given.items()}
    values = {name: evaluate(text, context) for name, text in policy.variables.items()}
    context["variables"] = celtypes.MapType(values)
    return [rule.id for rule in policy.rules if not evaluate(rule.expression, context)]


@pytest.mark.parametrize(
    ("backend", "kind"), [("lws", "LeaderWorkerSet"), ("dgd", "DynamoGraphDeployment")]
)
def test_what_we_render_is_admitted(make_fleet: MakeFleet, backend: str, kind: str) -> None:
    """A rule that refuses our own objects stops every rollout."""
    fleet = make_fleet(SMALL, backend=backend)
    engines, domains = policies(fleet)
    assert refused(engines, rendered(fleet, kind)[0]) == []
    assert refused(domains, rendered(fleet, "ComputeDomain")[0]) == []


@pytest.mark.parametrize("case", BROKEN)
def test_what_would_break_a_region_is_refused(make_fleet: MakeFleet, case: str) -> None:
    """Each rule names its own mistake and no other."""
    rule, change = BROKEN[case]
    fleet = make_fleet(SMALL)
    item = copy.deepcopy(rendered(fleet, "LeaderWorkerSet")[0])
    change(item)
    assert refused(policies(fleet)[0], item) == [rule]


def test_a_second_domain_of_a_rack_is_refused(make_fleet: MakeFleet) -> None:
    """Two domains in one NVLink clique exclude each other."""
    fleet = make_fleet(SMALL)
    item = copy.deepcopy(rendered(fleet, "ComputeDomain")[0])
    item["metadata"]["name"] = "second"
    assert refused(policies(fleet)[1], item) == ["K006"]


NODE = {
    "metadata": {"name": "node-1", "labels": {"k3fleet.io/rack": "use1-r01"}},
    "spec": {"unschedulable": False},
}
# What a stolen token of the weights stage might be used for, and the rule that must say no.
STOLEN: Mapping[str, tuple[list[str], str, Change]] = {
    "its own label": (
        [],
        "node-1",
        lambda x: x["metadata"]["labels"].update({"weights.k3fleet.io/abc": "ready"}),
    ),
    "another node": (["own-node"], "node-2", lambda _: None),
    "a rack": (
        ["own-labels"],
        "node-1",
        lambda x: x["metadata"]["labels"].update({"k3fleet.io/rack": "use1-r02"}),
    ),
    "a cordon": (["nothing-else"], "node-1", lambda x: x["spec"].update(unschedulable=True)),
}


@pytest.mark.parametrize("case", STOLEN)
def test_the_weights_stage_may_label_its_own_node_and_nothing_else(
    make_fleet: MakeFleet, case: str
) -> None:
    """Its pods run on every node of a rack, as root."""
    expected, node, change = STOLEN[case]
    fleet = make_fleet(SMALL, **STAGED)
    options = Options()
    staging = staging_values(fleet, make_plan(fleet).regions[0], "k3", options)
    policy = admission_policies(fleet, "k3", staging, options)[-1]
    after = copy.deepcopy(NODE)
    change(after)
    account = {"extra": {"authentication.kubernetes.io/node-name": [node]}}
    assert refused(policy, after, oldObject=NODE, request={"userInfo": account}) == expected


def test_every_rule_has_a_case(make_fleet: MakeFleet) -> None:
    """A rule without a bad object may be one that can never fail."""
    rules = [rule.id for rule in policies(make_fleet(SMALL))[0].rules]
    assert set(rules) == {rule for rule, _ in BROKEN.values()}
    assert len(rules) == len(set(rules))


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
