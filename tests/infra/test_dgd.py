"""Replicas that Dynamo's operator runs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from lightkube.models.core_v1 import PodTemplateSpec

from fleet.load import Fleet, preset_names
from fleet.region_spec import RACK_ID_MAX, REPLICA_NAME_MAX
from infra.options import Options
from infra.program import REPLACED_ON
from infra.render import KubeObject, render_region

SHARED = Path(__file__).parents[3] / "shared" / "data"
SCHEMA = SHARED / "crds" / "nvidia.com_dynamographdeployments.v1beta1.schema.json"
RECIPES = SHARED / "k3-recipes"
needs_schema = pytest.mark.skipif(
    not SCHEMA.is_file(), reason="needs the operator's schema in ../shared/data/crds"
)

PRESETS = preset_names("release")
IMAGE = f"registry.example/engine:1.0@sha256:{'0' * 64}"
GROVE_NAME_MAX = 45  # of an object name, a component's and its longest clique's together

MakeFleet = Callable[..., Fleet]
Render = Callable[[str], list[KubeObject]]


def with_release(fleet: Fleet, **changes: Any) -> Fleet:
    return dataclasses.replace(fleet, release=fleet.release.model_copy(update=changes))


def serving(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    return render_region(fleet, "us-east", "serving", options)


@pytest.fixture(scope="session")
def render(make_fleet: MakeFleet, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Render six nodes of a preset, once: three replicas of two, so 2P1D is one group."""
    done: dict[str, list[KubeObject]] = {}
    folder = tmp_path_factory.mktemp("releases")

    def rendered(preset: str) -> list[KubeObject]:
        if preset not in done:
            own = folder / f"mine-{preset}.yaml"  # with an image, which one preset has not
            own.write_text(f"extends: {preset}\nengine: {{image: '{IMAGE}'}}\n")
            fleet = make_fleet({"use1-r01": 6}, backend="dgd", release=str(own))
            done[preset] = serving(fleet)
        return done[preset]

    return rendered


def graphs(objects: list[KubeObject]) -> list[KubeObject]:
    return [item for item in objects if item["kind"] == "DynamoGraphDeployment"]


def component(graph: KubeObject) -> dict[str, Any]:
    (found,) = graph["spec"]["components"]
    return dict(found)


def main(graph: KubeObject) -> dict[str, Any]:
    (container,) = component(graph)["podTemplate"]["spec"]["containers"]
    return dict(container)


def env(graph: KubeObject) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in main(graph)["env"]}


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text())
    return loaded


def refusals(rules: dict[str, Any], graph: KubeObject) -> list[str]:
    return [error.message for error in Draft202012Validator(rules).iter_errors(graph)]


@needs_schema
@pytest.mark.parametrize("preset", PRESETS)
def test_the_operator_accepts_every_preset(render: Render, preset: str) -> None:
    """Its schema and, in a second pass, what its webhook says beyond that."""
    rules = schema()
    found = graphs(render(preset))
    assert found
    for graph in found:
        assert refusals(rules, graph) == []
        assert refusals(rules["$defs"]["webhook"], graph) == []


@needs_schema
@pytest.mark.skipif(not RECIPES.is_dir(), reason="needs the public recipes in ../shared")
def test_the_check_finds_what_is_wrong_with_the_public_recipes() -> None:
    """Three of them have images without a version, which a 1.5 operator refuses."""
    rules = schema()
    refused = set()
    for file in RECIPES.glob("*/*.yaml"):
        documents = yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader)
        graph = next(item for item in documents if item and "components" in item["spec"])
        assert refusals(rules, graph) == []
        if refusals(rules["$defs"]["webhook"], graph):
            refused.add(str(file.relative_to(RECIPES).with_suffix("")))
    assert refused == {
        "sglang/agg-gb300-agentic",
        "sglang/disagg-gb300-agentic",
        "vllm/agg-gb300-agentic-dspark",
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_every_pod_template_has_only_known_fields(render: Render, preset: str) -> None:
    """The operator's schema does not look deep into pod templates."""
    for graph in graphs(render(preset)):
        pod = component(graph)["podTemplate"]
        assert PodTemplateSpec.from_dict(pod).to_dict() == pod


@settings(max_examples=6)  # each renders a region
@given(rack=st.from_regex(rf"[a-z][a-z0-9-]{{0,{RACK_ID_MAX - 2}}}[a-z]", fullmatch=True))
def test_any_rack_gives_names_that_grove_takes(make_fleet: MakeFleet, rack: str) -> None:
    """Grove cuts longer ones, and the operator's webhook refuses them."""
    for graph in graphs(serving(make_fleet({rack: 2}, backend="dgd"))):
        name, short = graph["metadata"]["name"], component(graph)["name"]
        assert len(name) <= REPLICA_NAME_MAX
        assert len(name) + len(short) + len(f"{short}-ldr") <= GROVE_NAME_MAX


def test_the_longest_name_of_a_replica_fits_grove(make_fleet: MakeFleet) -> None:
    """The limit itself, which random names seldom reach."""
    graph = graphs(serving(make_fleet({"r" * RACK_ID_MAX: 18}, backend="dgd")))[-1]
    short = component(graph)["name"]
    # One digit less than the limit: only replicas of one node have slots of two.
    assert len(graph["metadata"]["name"]) == REPLICA_NAME_MAX - 1
    assert REPLICA_NAME_MAX + len(short) + len(f"{short}-ldr") <= GROVE_NAME_MAX


@pytest.mark.parametrize("preset", PRESETS)
def test_all_replicas_share_one_dynamo_namespace(render: Render, preset: str) -> None:
    """The operator's own is one per object: routing and affinity work only inside one.

    Its suffix is taken away by an empty value, which is not the same as none.
    """
    found = [env(graph) for graph in graphs(render(preset))]
    [name] = {item["DYN_NAMESPACE"]["value"] for item in found}
    assert re.fullmatch("demo-us-east-[0-9a-f]{8}", name)
    assert {item["DYN_NAMESPACE_WORKER_SUFFIX"]["value"] for item in found} == {""}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_variable_is_filled_in_after_sorting(render: Render, preset: str) -> None:
    """The operator sorts variables by name; Kubernetes fills in what stands before."""
    for graph in graphs(render(preset)):
        for name, item in env(graph).items():
            for other in re.findall(r"\$\((\w+)\)", item.get("value", "")):
                assert other < name
        host = env(graph)["DYN_SYSTEM_HOST"]
        assert host["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_operator_places_the_ranks(render: Render, preset: str) -> None:
    """It adds rank, leader and size itself, and reads the split from a word of its own."""
    for graph in graphs(render(preset)):
        words = [*main(graph)["command"], *main(graph)["args"]]
        flags = {word.partition("=")[0] for word in words}
        assert not flags & {"--node-rank", "--nnodes", "--master-addr", "--dist-init-addr"}
        assert "LWS_" not in json.dumps(graph)
        if graph["spec"]["backendFramework"] == "vllm":
            assert words[words.index("--tensor-parallel-size") + 1].isdecimal()
            assert "--headless" not in flags


@pytest.mark.parametrize("preset", PRESETS)
def test_a_replica_is_one_component_of_whole_nodes(render: Render, preset: str) -> None:
    """One object per replica: a canary or a dead node touches one object."""
    for graph in graphs(render(preset)):
        labels = graph["metadata"]["labels"]
        pod = component(graph)["podTemplate"]
        assert component(graph)["replicas"] == 1
        assert component(graph)["multinode"]["nodeCount"] >= 2
        assert labels["k3fleet.io/replica"] == graph["metadata"]["name"]
        for key in ("rack", "replica", "release"):
            assert pod["metadata"]["labels"][f"k3fleet.io/{key}"] == labels[f"k3fleet.io/{key}"]
        assert pod["spec"]["nodeSelector"]["k3fleet.io/rack"] == labels["k3fleet.io/rack"]
        assert pod["spec"]["serviceAccountName"] == "engine"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_slow_engine_is_not_killed(render: Render, preset: str) -> None:
    """The operator's liveness probe allows one failure in 5 s, and hours of loading are lost."""
    for graph in graphs(render(preset)):
        live, start = main(graph)["livenessProbe"], main(graph)["startupProbe"]
        budget_s = start["periodSeconds"] * start["failureThreshold"]
        assert budget_s >= 7200
        assert live["periodSeconds"] * live["failureThreshold"] >= budget_s


@pytest.mark.parametrize("preset", PRESETS)
def test_shared_memory_is_mounted_once(render: Render, preset: str) -> None:
    """The operator mounts it itself; a second volume at the same path is refused."""
    for graph in graphs(render(preset)):
        assert component(graph)["sharedMemorySize"] == "200Gi"
        mounts = {item["name"]: item["mountPath"] for item in main(graph)["volumeMounts"]}
        volumes = component(graph)["podTemplate"]["spec"]["volumes"]
        assert set(mounts) == {item["name"] for item in volumes}
        assert not [path for path in mounts.values() if path.startswith("/dev")]


@pytest.mark.parametrize("preset", PRESETS)
def test_files_of_an_engine_are_there_when_it_starts(render: Render, preset: str) -> None:
    """TensorRT-LLM reads most of its settings from a file."""
    objects = render(preset)
    maps = {item["metadata"]["name"] for item in objects if item["kind"] == "ConfigMap"}
    for graph in graphs(objects):
        volumes = component(graph)["podTemplate"]["spec"]["volumes"]
        mounted = {item["configMap"]["name"] for item in volumes if "configMap" in item}
        assert mounted <= maps
        assert bool(mounted) == (graph["spec"]["backendFramework"] == "trtllm")


@pytest.mark.parametrize("preset", PRESETS)
def test_types_follow_the_roles(render: Render, preset: str) -> None:
    """Frontends send prefill and decode their halves by this type."""
    types = [component(graph)["type"] for graph in graphs(render(preset))]
    if "-pd-2p1d" in preset:
        assert types == ["prefill", "prefill", "decode"]
    elif "-pd-1p2d" in preset:
        assert types == ["prefill", "decode", "decode"]
    else:
        assert set(types) == {"worker"}


@pytest.mark.parametrize("preset", PRESETS)
def test_what_belongs_to_the_operator_is_left_alone(render: Render, preset: str) -> None:
    """It refuses `restart` on a new object, and owns annotations that an apply would remove."""
    for graph in graphs(render(preset)):
        assert "restart" not in graph["spec"]
        assert "annotations" not in graph["metadata"]


def test_the_operator_brings_the_service_for_discovery(make_fleet: MakeFleet) -> None:
    """A second one, with a LeaderWorkerSet's labels, would never have an address."""
    objects = serving(make_fleet(backend="dgd"))
    services = [item["metadata"] for item in objects if item["kind"] == "Service"]
    names = {item["labels"]["app.kubernetes.io/name"] for item in services}
    assert names == {"frontend", "gateway"}


def test_a_budget_counts_pods_by_labels_that_they_keep(make_fleet: MakeFleet) -> None:
    """Grove overwrites app.kubernetes.io/name and part-of on its pods."""
    objects = serving(make_fleet(backend="dgd"))
    budget = next(item for item in objects if item["metadata"]["name"] == "use1-r01-engines")
    selector = budget["spec"]["selector"]
    labels = component(graphs(objects)[0])["podTemplate"]["metadata"]["labels"]
    assert selector["matchLabels"] == {"k3fleet.io/rack": labels["k3fleet.io/rack"]}
    assert selector["matchExpressions"] == [{"key": "k3fleet.io/replica", "operator": "Exists"}]
    assert "k3fleet.io/replica" in labels


@pytest.mark.parametrize("kind", ["NetworkPolicy", "PodMonitor", "PodDisruptionBudget"])
def test_what_selects_engines_finds_them(make_fleet: MakeFleet, kind: str) -> None:
    """A closed namespace whose exceptions select nothing cuts engines off."""
    objects = serving(make_fleet(backend="dgd"))
    kept = {"k3fleet.io/rack", "k3fleet.io/replica", "k3fleet.io/release"}
    found = [
        selector["matchExpressions"][0]["key"]
        for item in objects
        if item["kind"] == kind
        for selector in selectors(item["spec"])
        if "matchExpressions" in selector
    ]
    assert found
    assert set(found) <= kept


def selectors(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key in ("selector", "podSelector"):
                yield value
            else:
                yield from selectors(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from selectors(value)


def test_a_queue_of_kai_reaches_the_operator(make_fleet: MakeFleet) -> None:
    """It reads another annotation than KAI does."""
    fleet = make_fleet(backend="dgd", scheduling={"gang": "kai", "queue": "serving"})
    graph = graphs(serving(fleet))[0]
    assert graph["metadata"]["annotations"] == {"nvidia.com/kai-scheduler-queue": "serving"}
    assert component(graph)["podTemplate"]["spec"]["schedulerName"] == "kai-scheduler"


def test_what_cannot_change_in_place_is_made_anew(make_fleet: MakeFleet) -> None:
    """The operator's webhook refuses a new engine or job in an object that is there."""
    graph = graphs(serving(make_fleet(backend="dgd")))[0]
    for path in REPLACED_ON["DynamoGraphDeployment"]:
        value: Any = graph
        for key in path.replace("[*]", ".0").split("."):
            value = value[int(key) if isinstance(value, list) else key]
        assert value
