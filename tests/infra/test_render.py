"""The rendered objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from lightkube import codecs
from lightkube.models.core_v1 import PodTemplateSpec

from fleet.load import Fleet
from infra.options import Layer, Options
from infra.render import KubeObject, quoted, render_region

MakeFleet = Callable[..., Fleet]
LAYERS: tuple[Layer, ...] = ("platform", "serving")
CUSTOM = {"LeaderWorkerSet", "ComputeDomain", "ExternalSecret", "PodMonitor", "PrometheusRule"}
SURROUNDED = {
    "weights_stage": {"image": "registry.example/hf@sha256:" + "0" * 64},
    "secrets": {"image_pull": "registry", "hf_token": "hub", "external_store": "vault"},
    "scheduling": {"gang": "kai", "queue": "serving"},
    "kernel_cache": {"claim": "kernels"},
    "loadtest": {
        "image": "registry.example/k3fleet@sha256:" + "0" * 64,
        "tokenizer_dir": "/opt/kimi",
    },
}


def everything(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    return [item for layer in LAYERS for item in render_region(fleet, "us-east", layer, options)]


def of_kind(objects: list[KubeObject], kind: str) -> list[KubeObject]:
    return [item for item in objects if item["kind"] == kind]


def replicas(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    return of_kind(everything(fleet, options), "LeaderWorkerSet")


def pods(workload: KubeObject) -> list[dict[str, Any]]:
    if workload["kind"] == "Deployment":
        return [workload["spec"]["template"]]
    templates = workload["spec"]["leaderWorkerTemplate"]
    return [templates["leaderTemplate"], templates["workerTemplate"]]


def names(objects: list[KubeObject]) -> list[tuple[str, str]]:
    return [(item["kind"], item["metadata"]["name"]) for item in objects]


few = settings(max_examples=12)  # each renders a whole region
racks = st.dictionaries(
    st.from_regex(r"[a-z][a-z]{1,8}-r[0-9]{2}", fullmatch=True),
    st.integers(0, 18),
    min_size=1,
    max_size=3,
)


@few
@given(racks=racks)
def test_every_pod_of_a_replica_is_pinned_to_its_rack(
    make_fleet: MakeFleet, racks: dict[str, int]
) -> None:
    """A replica that straddles two racks leaves NVLink and fails when it starts."""
    for item in replicas(make_fleet(racks)):
        rack = item["metadata"]["labels"]["k3fleet.io/rack"]
        assert item["metadata"]["name"].startswith(f"{rack}-")
        for pod in pods(item):
            assert pod["spec"]["nodeSelector"]["k3fleet.io/rack"] == rack


@few
@given(racks=racks)
def test_a_rack_gets_as_many_replicas_as_pairs_of_nodes(
    make_fleet: MakeFleet, racks: dict[str, int]
) -> None:
    """18 healthy nodes give 9, 17 give 8."""
    found = [item["metadata"]["labels"]["k3fleet.io/rack"] for item in replicas(make_fleet(racks))]
    assert {rack: found.count(rack) for rack in racks} == {
        rack: healthy // 2 for rack, healthy in racks.items()
    }


@few
@given(racks=racks, data=st.data())
def test_moving_a_rack_in_the_file_changes_nothing(
    make_fleet: MakeFleet, racks: dict[str, int], data: st.DataObject
) -> None:
    """Names from a place in a list would restart every replica behind the moved one."""
    moved = dict(data.draw(st.permutations(list(racks.items()))))
    assert everything(make_fleet(racks)) == everything(make_fleet(moved))


@few
@given(racks=racks)
def test_no_object_is_rendered_twice(make_fleet: MakeFleet, racks: dict[str, int]) -> None:
    """Pulumi refuses a second resource of the same name, in the middle of an update."""
    found = names(everything(make_fleet(racks)))
    assert len(found) == len(set(found))


def test_a_new_rack_leaves_the_others_alone(make_fleet: MakeFleet) -> None:
    """Growing a region must not touch what runs."""
    before = everything(make_fleet({"use1-r01": 18}))
    after = everything(make_fleet({"use1-r00": 18, "use1-r01": 18}))
    assert [item for item in before if item not in after] == []


@pytest.mark.parametrize(
    "release", [pytest.param("vllm-tp8-dcp8"), pytest.param("sglang-tp8-dcp8")]
)
def test_every_core_object_has_only_known_fields(make_fleet: MakeFleet, release: str) -> None:
    """A misspelt field is dropped by the API server without a word."""
    for item in everything(make_fleet({"use1-r01": 4}, release=release, **SURROUNDED)):
        if item["kind"] in CUSTOM:
            continue
        kept = codecs.from_dict(item).to_dict()  # type: ignore[no-untyped-call]
        assert list(dropped(item, kept)) == []


@pytest.mark.parametrize("dra", [True, False])
def test_every_engine_pod_has_only_known_fields(demo: Fleet, dra: bool) -> None:
    """The LeaderWorkerSet of the lab does not look into pod templates."""
    for pod in pods(replicas(demo, Options(dra=dra))[0]):
        kept = PodTemplateSpec.from_dict(pod).to_dict()
        assert list(dropped(pod, kept)) == []


def dropped(given: object, kept: object, path: str = "") -> Iterator[str]:
    """Find what a typed model did not take over."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(kept, dict) or key not in kept:
                yield f"{path}.{key}"
            else:
                yield from dropped(value, kept[key], f"{path}.{key}")
    elif isinstance(given, list):
        for index, value in enumerate(given):
            yield from dropped(value, kept[index] if isinstance(kept, list) else None, path)


def test_claims_on_the_racks_domain_are_left_out_without_the_driver(demo: Fleet) -> None:
    """Without the DRA driver a pod with claims never gets a node."""
    text = json.dumps(replicas(demo, Options(dra=False)))
    assert "resourceClaims" not in text
    assert "claims" not in text


def test_every_engine_claims_the_channel_of_its_own_rack(make_fleet: MakeFleet) -> None:
    """A channel of another rack's domain gives a replica that cannot reach its second half."""
    objects = everything(make_fleet({"use1-r01": 18, "use1-r02": 18}))
    channels = {
        item["metadata"]["name"]: item["spec"]["channel"]["resourceClaimTemplate"]["name"]
        for item in of_kind(objects, "ComputeDomain")
    }
    for item in of_kind(objects, "LeaderWorkerSet"):
        for pod in pods(item):
            claim = pod["spec"]["resourceClaims"][0]
            rack = item["metadata"]["labels"]["k3fleet.io/rack"]
            assert claim["resourceClaimTemplateName"] == channels[rack]


def test_only_leaders_are_probed(demo: Fleet) -> None:
    """The second rank serves nothing: a probe of it would never succeed."""
    leader, worker = (pod["spec"]["containers"][0] for pod in pods(replicas(demo)[0]))
    assert [key for key in leader if key.endswith("Probe")] == ["startupProbe", "readinessProbe"]
    assert [key for key in worker if key.endswith("Probe")] == []


def test_the_engines_service_selects_leaders_for_discovery(demo: Fleet) -> None:
    """Dynamo's discovery looks only at Services with these two labels."""
    service = next(
        item
        for item in of_kind(everything(demo), "Service")
        if item["metadata"]["name"] == "engines"
    )
    assert service["metadata"]["labels"]["nvidia.com/dynamo-discovery-backend"] == "kubernetes"
    assert service["metadata"]["labels"]["nvidia.com/dynamo-discovery-enabled"] == "true"
    assert service["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"


def test_a_leader_can_be_taken_out_of_routing(demo: Fleet) -> None:
    """By a label that only leaders have and nothing else selects by: pods stay where they are."""
    objects = everything(demo)
    leader, worker = pods(replicas(demo)[0])
    assert leader["metadata"]["labels"]["k3fleet.io/routed"] == "true"
    assert "k3fleet.io/routed" not in worker["metadata"]["labels"]
    selecting = [
        (item["kind"], item["metadata"]["name"])
        for item in objects
        if "k3fleet.io/routed" in json.dumps(item["spec"].get("selector") if "spec" in item else {})
    ]
    assert selecting == [("Service", "engines")]


def test_discovery_may_do_what_it_needs_and_nothing_else(demo: Fleet) -> None:
    """The verbs were found by trying Dynamo 1.6.1 against an API server."""
    role = of_kind(everything(demo), "Role")[0]
    assert {rule["resources"][0]: rule["verbs"] for rule in role["rules"]} == {
        "endpointslices": ["list", "watch"],
        "dynamoworkermetadatas": ["create", "patch", "get", "list", "watch"],
    }


def test_the_gateway_has_no_token(demo: Fleet) -> None:
    """It is the pod that strangers talk to."""
    gateway = of_kind(everything(demo), "Deployment")[1]
    assert gateway["metadata"]["name"] == "gateway"
    assert pods(gateway)[0]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", ["frontend", "gateway"])
def test_what_faces_users_runs_restricted(demo: Fleet, name: str) -> None:
    """The "restricted" pod security standard, as far as it looks at these pods."""
    workload = next(
        item
        for item in of_kind(everything(demo), "Deployment")
        if item["metadata"]["labels"]["app.kubernetes.io/name"] == name
    )
    spec = pods(workload)[0]["spec"]
    container = spec["containers"][0]["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"]}


def test_no_secret_is_rendered(demo: Fleet) -> None:
    """Rendered files are kept in build artefacts and in Pulumi's state."""
    assert of_kind(everything(demo), "Secret") == []


def test_a_changed_gateway_file_restarts_the_gateway(demo: Fleet) -> None:
    """Envoy does not read a changed file again: only a new name in the pod rolls it."""

    def mounted(options: Options) -> str:
        pod = pods(of_kind(everything(demo, options), "Deployment")[1])[0]
        return str(pod["spec"]["volumes"][0]["configMap"]["name"])

    assert mounted(Options(gateway_port=8080)) != mounted(Options(gateway_port=8081))


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_can_leave_its_place(text: str) -> None:
    """A line break or quote in an argument must not become YAML of its own."""
    document = f"before: 1\nvalue: {quoted(text)}\nafter: 2\n"
    assert yaml.safe_load(document) == {"before": 1, "value": text, "after": 2}


def test_an_engine_argument_reaches_the_pod_unchanged(demo: Fleet) -> None:
    """Arguments are JSON with quotes and braces, which templates like to eat."""
    args = ('--config={"a": "{{ x }}", "b": [1]}', "--text=a: b # c\n- d")
    release = demo.release.model_copy(update={"args": args})
    options = Options(
        releases={"r": release}, assignment={f"use1-r01-{slot}": "r" for slot in range(9)}
    )
    pod = pods(replicas(demo, options)[0])[0]
    assert pod["spec"]["containers"][0]["args"][-2:] == list(args)
