"""Every object that a region has, given to real API servers as strictly as they can be asked.

The platform of a few regions is kept, so that their policies are in force, and their accounts and
priority classes are there, when everything else comes. Regions that are applied twice or rolled out
are kept whole. All others are dry runs: defaults, validation and admission are the same, and only
the writing to etcd is left out. Pods are made of every template, because no custom kind, and no
Deployment, says beforehand what is wrong with one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from api_planes import Plane, PlaneSpec, running
from api_server import ApiServer
from policy_cases import PolicyCase, StageCase, policy_cases, stage_cases
from region_cases import (
    BACKENDS,
    OTHER_RACK,
    RACK,
    REPLICA_KIND,
    RegionCase,
    everything,
    pods_of,
    preset_cases,
    variants,
)

from fleet.spec import Backend
from infra.lint.core_schema import versions_with
from infra.render import KubeObject

pytestmark = pytest.mark.lab

PLANES = [
    PlaneSpec(version=(1, 34), kinds="ours"),
    PlaneSpec(version=(1, 37), kinds="ours"),
    PlaneSpec(version=(1, 37), kinds="lab"),
    PlaneSpec(version=(1, 34), kinds="upstream"),
    PlaneSpec(version=(1, 37), kinds="upstream"),
]
REGIONS = [*preset_cases(), *variants()]
# The first region of each namespace; the others there have the same policies.
PLATFORMS = list({case.place: case for case in reversed(REGIONS)}.values())
UNKNOWN = "notAField"
# What the GPU operator brings, and a pod that asks its node for a report names.
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
# The operator cannot change a graph's engine, so there Pulumi replaces the object on purpose.
NEXT_RELEASE: Mapping[Backend, str] = {"lws": "sglang-tp8-dcp8", "dgd": "vllm-tp8-dcp8-dspark"}


@pytest.fixture(scope="module", params=PLANES, ids=str)
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plane]:
    """Start an API server that has the platforms, and enforces their policies."""
    spec: PlaneSpec = request.param
    if not spec.available:
        pytest.skip("no upstream definitions on this machine")
    with running(spec, tmp_path_factory.mktemp("plane")) as started:
        assert refused(started, [RUNTIME_CLASS], keep=True) == []
        for case in PLATFORMS:
            assert refused(started, case.objects("platform"), keep=True) == []
        started.check_policies()
        for case in PLATFORMS:
            for kind in (REPLICA_KIND[case.backend], "ComputeDomain"):
                started.wait(f"policy for {kind} in {case.place}", in_force(started, case, kind))
        yield started


def refused(plane: Plane, objects: list[KubeObject], *, keep: bool = False) -> list[str]:
    """Apply objects in their order; list those that were not taken, or with a warning only."""
    answers = [(item, plane.apply(item, keep=keep)) for item in objects]
    return [
        f"{item['kind']} {item['metadata']['name']}: {answer}"
        for item, answer in answers
        if not answer.accepted or answer.warnings
    ]


def in_force(plane: Plane, case: RegionCase, kind: str) -> Callable[[], bool]:
    """Ask whether the policy for a kind refuses what it should."""
    wrong = next(item for item in policy_cases() if item.kind == kind)
    bad = wrong.change(new_object(case, kind))
    said = f"denied request: {wrong.rule}: "
    return lambda: said in plane.server.apply(bad, keep=False).message


def new_object(case: RegionCase, kind: str) -> KubeObject:
    """Give an object of a kind that is not there yet, because its rack is not."""
    objects = replace(case, rack=OTHER_RACK).objects()
    return next(item for item in objects if item["kind"] == kind)


def policies(objects: list[KubeObject]) -> list[KubeObject]:
    return [item for item in objects if item["kind"] == "ValidatingAdmissionPolicy"]


def type_warnings(plane: Plane, policy: KubeObject) -> list[Any]:
    """Wait until a policy was type-checked, and give what was found."""

    def status() -> dict[str, Any]:
        body = plane.server.read(policy).body
        found: dict[str, Any] = body.get("status", {})
        done = found.get("observedGeneration") == body["metadata"]["generation"]
        return found if done and "typeChecking" in found else {}

    plane.wait(f"types of {policy['metadata']['name']}", lambda: bool(status()))
    warnings: list[Any] = status()["typeChecking"].get("expressionWarnings", [])
    return warnings


def test_the_server_is_of_the_version_that_is_asked(plane: Plane):
    """Else both versions would be the newest one, which takes more."""
    told = plane.server.send("GET", "/version").body
    assert f"{told['emulationMajor']}.{told['emulationMinor']}" == plane.spec.kubernetes
    newer = ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy")  # since 1.36
    has = plane.server.knows({"apiVersion": newer[0], "kind": newer[1]})
    assert has == (plane.spec.version in versions_with(newer))


@pytest.mark.parametrize("case", REGIONS, ids=str)
def test_every_object_is_accepted(plane: Plane, case: RegionCase):
    """On the day, one refused object stops a region."""
    objects = case.objects()
    pods = [pod for item in objects for pod in pods_of(item)]
    assert pods
    assert refused(plane, [*objects, *pods]) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_field_that_does_not_exist_is_refused(plane: Plane, backend: Backend):
    """Else the test above would be one that cannot fail."""
    objects = everything(backend).objects()
    by_kind = {item["kind"]: {**item, UNKNOWN: 1} for item in objects}
    pods = [pod for item in objects for pod in pods_of(item)]
    for pod in pods:
        pod["spec"]["containers"][0][UNKNOWN] = 1
    for item in (*by_kind.values(), *pods):
        answer = plane.apply(item)
        assert not answer.accepted, item["kind"]
        assert UNKNOWN in answer.message


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_apply_changes_nothing(plane: Plane, backend: Backend):
    """A server that defaults what we write would show a difference for ever."""
    objects = everything(backend, namespace=f"twice-{backend}").objects()
    assert refused(plane, objects, keep=True) == []
    for policy in policies(objects):
        type_warnings(plane, policy)  # somebody else's write, which has to be over
    # The server notes who wrote a field when, in whole seconds: within one, a change may not show.
    written = time.monotonic()
    plane.wait("the next second", lambda: time.monotonic() > written + 1)
    before = {text(item): plane.server.read(item) for item in objects}
    after = {text(item): plane.apply(item, keep=True) for item in objects}
    changed = [name for name, answer in after.items() if answer.version != before[name].version]
    assert changed == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rollout_changes_objects_in_place(plane: Plane, backend: Backend):
    """A field that cannot change would have Pulumi delete the object, and its replica with it."""
    old = everything(backend, namespace=f"rollout-{backend}")
    new = replace(old, release=NEXT_RELEASE[backend])
    assert refused(plane, old.objects(), keep=True) == []
    objects = new.objects()
    before = {text(item): plane.server.read(item) for item in objects}
    assert refused(plane, objects, keep=True) == []
    changed = {
        item["kind"]
        for item in objects
        if (known := before[text(item)]).accepted
        and known.version != plane.server.read(item).version
    }
    assert REPLICA_KIND[backend] in changed
    assert "ComputeDomain" not in changed


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_regions_share_a_cluster(plane: Plane, backend: Backend):
    """Each is a stack of its own, and Pulumi stops at the first field that another one owns."""
    for region in ("us-east", "eu-west"):
        case = everything(backend, namespace=f"{region}-{backend}", region=region)
        for item in case.objects():
            answer = plane.server.apply(item, keep=True, manager=region)
            assert answer.accepted, answer


def text(item: KubeObject) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


@pytest.mark.parametrize("case", policy_cases(), ids=str)
def test_a_policy_refuses_one_mistake(plane: Plane, case: PolicyCase):
    """Its rule must stop what breaks a region, whoever applies it, and nothing else."""
    backend: Backend = "dgd" if case.kind == REPLICA_KIND["dgd"] else "lws"
    good = new_object(everything(backend), case.kind)
    assert refused(plane, [good]) == []
    answer = plane.apply(case.change(good))
    assert f"denied request: {case.rule}: " in answer.message


@pytest.mark.parametrize("case", PLATFORMS, ids=str)
def test_the_types_of_every_policy_are_right(plane: Plane, case: RegionCase):
    """An expression about a field that is not there fails only when it is evaluated."""
    for policy in policies(case.objects("platform")):
        assert type_warnings(plane, policy) == []


def test_an_ill_typed_policy_is_noticed(plane: Plane):
    """Else the test above would be one that cannot fail."""
    policy = policies(everything("lws").objects("platform"))[0]
    policy["metadata"]["name"] = "ill-typed"
    policy["spec"]["validations"][0]["expression"] = "object.spec.replicaCount == 1"
    assert refused(plane, [policy], keep=True) == []
    (warning,) = type_warnings(plane, policy)
    assert "replicaCount" in warning["warning"]


def node(name: str) -> KubeObject:
    labels = {"k3fleet.io/rack": RACK}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture(scope="module")
def stage(plane: Plane) -> Iterator[ApiServer]:
    """Give a client with the token that the weights stage has in its pod on a node."""
    region = everything("lws")
    assert refused(plane, [node("own"), node("other")], keep=True) == []
    staging = next(item for item in region.objects("platform") if item["kind"] == "DaemonSet")
    (pod,) = pods_of(staging)
    pod["spec"]["nodeName"] = "own"
    made = plane.apply(pod, keep=True)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"]}
    url = f"/api/v1/namespaces/{region.place}/serviceaccounts/weights-stage/token"
    asked = {"spec": {"boundObjectRef": {**bound, "uid": made.body["metadata"]["uid"]}}}
    token = plane.server.send("POST", url, asked).body["status"]["token"]
    with closing(plane.server.with_token(token)) as client:
        plane.wait("the account's role", lambda: client.read(node("own")).accepted)
        yield client


@pytest.mark.parametrize("case", stage_cases(), ids=str)
def test_the_weights_stage_only_labels_its_own_node(stage: ApiServer, case: StageCase):
    """Kubernetes' roles cannot say so: whoever takes the pod over could cordon the cluster."""
    answer = stage.merge(node(case.node), case.patch)
    if case.rule is None:
        assert answer.accepted, answer
    else:
        assert f"denied request: {case.rule}: " in answer.message
