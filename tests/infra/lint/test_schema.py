"""Objects against the schemas of their kinds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.load import Fleet, load_fleet
from infra.lint.alike import _LEAST, _OWN, Alike
from infra.lint.core_schema import CUSTOM, Schemas, custom_kinds, packaged_versions, schemas_of
from infra.lint.manifest import Manifest
from infra.lint.rule import Spot
from infra.lint.rules.schema import RULES
from infra.lint.scene import Scene
from infra.render import KubeObject, render_region

ROOT = Path(__file__).parents[3]
CRDS = ROOT.parent / "shared" / "data" / "crds"
RECIPES = ROOT.parent / "shared" / "data" / "k3-recipes"
BY_ID = {rule.id: rule for rule in RULES}

MakeFleet = Callable[..., Fleet]


def spots(rule: str, *objects: KubeObject, version: tuple[int, int] = (1, 37)) -> list[Spot]:
    return list(BY_ID[rule].check(scene(objects, version)))


def scene(objects: tuple[KubeObject, ...] | list[KubeObject], version: tuple[int, int]) -> Scene:
    nothing = cast(Any, None)  # schemas look at neither model nor racks
    manifests = tuple(Manifest(file="test.yaml", data=item) for item in objects)
    return Scene(manifests=manifests, kubernetes=version, model=nothing, hardware=nothing)


def pod(**spec: Any) -> KubeObject:
    container = {"name": "main", **spec.pop("container", {})}
    data = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": data}


def replica(rack: str, number: int) -> KubeObject:
    name = f"{rack}-{number}"
    container = {"name": "main", "env": [{"name": "WHO", "value": f"{name}.engines"}]}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": {"k3fleet.io/rack": rack}},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}},
    }


# Our own rendering


@pytest.fixture(scope="session")
def rendered(make_fleet: MakeFleet, tmp_path_factory: pytest.TempPathFactory) -> list[KubeObject]:
    """Give all objects of the demo with either backend, and a Secret from a store."""
    demo = yaml.safe_load((ROOT / "fleets" / "demo.yaml").read_text())
    path = tmp_path_factory.mktemp("demo") / "demo.yaml"
    path.write_text(yaml.safe_dump({**demo, "backend": "dgd"}))
    store = {"external_store": "vault", "image_pull": "registry"}
    fleets = [load_fleet(ROOT / "fleets" / "demo.yaml"), load_fleet(path)]
    fleets.append(make_fleet(secrets=store))
    return [
        item
        for fleet in fleets
        for region in fleet.spec.regions
        for layer in ("platform", "serving")
        for item in render_region(fleet, region.name, cast(Any, layer))
    ]


@pytest.mark.parametrize("version", [(1, 34), (1, 37)])
def test_what_we_render_is_valid(rendered: list[KubeObject], version: tuple[int, int]) -> None:
    """On the oldest and the newest Kubernetes that we say we run on; every kind is known."""
    found = [spot for rule in RULES for spot in rule.check(scene(rendered, version))]
    assert [(str(spot.manifest), spot.path, spot.what) for spot in found] == []


@pytest.mark.parametrize("version", [(1, 34), (1, 37)])
def test_the_package_agrees_about_our_rendering(
    rendered: list[KubeObject], version: tuple[int, int]
) -> None:
    """We use its schemas in our own way, so its own way must give the same answer."""
    schemas = schemas_of(version)
    distinct = {Alike.of(Manifest(file="", data=item)).text: item for item in rendered}
    core = [
        item for item in distinct.values() if (item["apiVersion"], item["kind"]) in schemas.core
    ]
    assert len(core) > 20
    for item in core:
        assert kubernetes_validate.validate(item, f"{version[0]}.{version[1]}", strict=True)


@pytest.mark.skipif(not RECIPES.is_dir(), reason="needs the public recipes in ../shared")
def test_the_public_recipes_are_valid() -> None:
    """They run on somebody's cluster, so a finding here would be wrong."""
    objects = [
        item
        for path in sorted(RECIPES.rglob("*.yaml"))
        for item in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        if item
    ]
    found = [spot for rule in RULES for spot in rule.check(scene(objects, (1, 37)))]
    assert len(objects) > 10
    assert [(str(spot.manifest), spot.path, spot.what) for spot in found] == []


# Upstream's fields

UPSTREAM: Mapping[tuple[str, str], str] = {
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): (
        "leaderworkerset.x-k8s.io_leaderworkersets.yaml"
    ),
    ("resource.nvidia.com/v1beta1", "ComputeDomain"): "resource.nvidia.com_computedomains.yaml",
    ("nvidia.com/v1alpha1", "DynamoWorkerMetadata"): "nvidia.com_dynamoworkermetadatas.yaml",
    ("nvidia.com/v1beta1", "DynamoGraphDeployment"): (
        "nvidia.com_dynamographdeployments.v1beta1.schema.json"
    ),
}


def upstream_schema(file: str) -> dict[str, Any]:
    data = yaml.load((CRDS / file).read_text(), Loader=yaml.CSafeLoader)
    if file.endswith(".json"):
        return dict(data)
    (version,) = data["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def types(schema: Mapping[str, Any], whole: Mapping[str, Any], path: str = "") -> Iterator[Any]:
    """Yield (path, type, limits) of every field; Kubernetes' own types end a path."""
    if schema.get("$ref", "").startswith("#/$defs/"):
        target = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        schema = {"end": target["$ref"]} if "$ref" in target else target
    if "end" in schema:
        yield path, "core", ()
        return
    limits = ("enum", "minimum", "minLength", "minItems", "required", "pattern")
    yield path, schema.get("type"), tuple(str(schema.get(key)) for key in limits)
    for name, part in schema.get("properties", {}).items():
        yield from types(part, whole, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from types(schema[key], whole, f"{path}.{key}")


@pytest.mark.skipif(not CRDS.is_dir(), reason="needs the operators' schemas in ../shared/data/crds")
@pytest.mark.parametrize("kind", UPSTREAM, ids=lambda kind: str(kind[1]))
def test_our_schema_has_the_fields_of_upstream(kind: tuple[str, str]) -> None:
    """No more, or a typo passes; no less, or a good manifest is refused."""
    whole = json.loads(custom_kinds()[kind].read_text())
    upstream = upstream_schema(UPSTREAM[kind])
    ours = {path: rest for path, *rest in types(whole, whole) if path}
    core = tuple(path for path, rest in ours.items() if rest[0] == "core")
    # Templates that the operator puts over others need not be whole, so ours are open.
    ends = (*core, *(path for path in ours if path.endswith(".podTemplate")))
    theirs = {
        path: rest
        for path, *rest in types(upstream, upstream)
        if path and not any(path.startswith(f"{end}.") for end in ends)
    }
    known = (".apiVersion", ".kind", ".metadata")
    assert {path for path in ours if not path.startswith(known)} == {
        path for path in theirs if not path.startswith(known)
    }
    for path in theirs.keys() - set(core) - set(known):
        if not path.startswith(known):
            assert ours[path] == theirs[path], path


@pytest.mark.parametrize("kind", custom_kinds(), ids=lambda kind: str(kind[1]))
def test_a_schema_says_which_kind_it_is_for(kind: tuple[str, str]) -> None:
    """Its file name is what it is found by."""
    properties = json.loads(custom_kinds()[kind].read_text())["properties"]
    assert (properties["apiVersion"]["const"], properties["kind"]["const"]) == kind


# Equal objects


def words(tree: object) -> Iterator[str]:
    if isinstance(tree, dict):
        yield from (str(item) for key in ("enum", "const") for item in as_list(tree.get(key)))
        for value in tree.values():
            yield from words(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from words(value)


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def test_no_schema_knows_a_word_that_could_be_a_name() -> None:
    """Else two objects with such names could be taken for equal, and one of them is wrong."""
    for path in CUSTOM.glob("*.json"):
        listed = [word for word in words(json.loads(path.read_text())) if _OWN.fullmatch(word)]
        assert [word for word in listed if len(word) >= _LEAST] == []


def test_replicas_of_all_racks_are_one_object_to_check() -> None:
    """1,800 replicas must not take 1,800 validations."""
    replicas = [replica(f"use1-r{rack:03}", number) for rack in range(200) for number in range(9)]
    assert len({Alike.of(Manifest(file="", data=item)).text for item in replicas}) == 1


def test_each_of_many_wrong_replicas_is_named() -> None:
    """A finding tells one where to go, and they are in different files."""
    wrong = [replica("use1-r01", 0), replica("use1-r02", 3)]
    for item in wrong:
        item["spec"][item["metadata"]["name"]] = 1
    assert [spot.path[-1] for spot in spots("S001", *wrong)] == ["use1-r01-0", "use1-r02-3"]
    assert "'use1-r02-3' is unknown" in spots("S001", *wrong)[1].what


def test_one_wrong_replica_among_equals_is_found() -> None:
    """Only a name may differ between objects that share a verdict."""
    wrong = replica("use1-r01", 1)
    wrong["spec"]["replicas"] = "1"
    found = spots("S001", replica("use1-r01", 0), wrong, replica("use1-r01", 2))
    assert [(spot.manifest.name, spot.path) for spot in found] == [
        ("use1-r01-1", ("spec", "replicas"))
    ]


# What is said


@pytest.mark.parametrize("value", ["64Gi", "500m", "1.5", "1e3", "2E-3", ".5", "+1", "0", 1, 0.5])
def test_a_quantity_may_be_written_so(value: object) -> None:
    """As Kubernetes reads quantities."""
    assert not spots("S001", pod(container={"resources": {"limits": {"memory": value}}}))


@pytest.mark.parametrize("value", ["64GB", "64 Gi", "64gi", "", "1e", "abc", True, ["1"]])
def test_what_is_no_quantity_is_one_finding(value: object) -> None:
    """Of text or number neither fits, which must not be said twice."""
    (spot,) = spots("S001", pod(container={"resources": {"limits": {"memory": value}}}))
    assert spot.path == ("spec", "containers", 0, "resources", "limits", "memory")


def test_every_fault_of_an_object_is_found() -> None:
    """People correct all of them at once."""
    item = pod(hostname=1, nodeselector={}, container={"image": 2, "ports": [{}]})
    found = {spot.path: spot for spot in spots("S001", item)}
    assert set(found) == {
        ("spec", "hostname"),
        ("spec", "nodeselector"),
        ("spec", "containers", 0, "image"),
        ("spec", "containers", 0, "ports", 0, "containerPort"),
    }
    assert found["spec", "nodeselector"].fix == "Did you mean nodeSelector?"


def test_a_graphs_pods_are_looked_into() -> None:
    """The operator's own schema is for one version of Kubernetes; the cluster's counts."""
    container = {"name": "main", "imagePullPolcy": "Always"}
    component = {"name": "w", "podTemplate": {"spec": {"containers": [container]}}}
    graph = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "g"},
        "spec": {"components": [component]},
    }
    (spot,) = spots("S001", graph)
    assert spot.path == (
        *("spec", "components", 0, "podTemplate", "spec", "containers", 0),
        "imagePullPolcy",
    )


def test_the_clusters_version_decides_which_fields_there_are() -> None:
    """`schedulingGroup` came later."""
    item = pod(schedulingGroup={"podGroupName": "g"})
    assert spots("S001", item, version=(1, 34))
    assert not spots("S001", item, version=(1, 37))


@pytest.mark.parametrize("version", [(1, 3), (1, 99), (2, 0)])
def test_versions_without_schemas_take_the_nearest(version: tuple[int, int]) -> None:
    """A new version of Kubernetes must not switch the linter off."""
    assert spots("S001", pod(hostname=1), version=version)
    assert not spots("K015", pod(), version=version)


def test_a_version_that_may_be_new_is_not_refused() -> None:
    """The linter is older than the cluster."""
    newest = packaged_versions()[-1]
    item = {"apiVersion": "apps/v7", "kind": "Deployment", "metadata": {"name": "d"}}
    assert spots("K015", item, version=newest)
    assert not spots("K015", item, version=(newest[0], newest[1] + 1))


# Hostile input

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = [*custom_kinds(), ("v1", "Pod"), ("apps/v1", "Deployment"), ("x/../y", "../z"), ("", "")]


@settings(max_examples=60)
@given(kind=st.sampled_from(KINDS), metadata=JSON, spec=JSON)
def test_no_object_breaks_a_rule(kind: tuple[str, str], metadata: object, spec: object) -> None:
    """Manifests of other people may hold anything."""
    item = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec}
    for rule in RULES:
        list(rule.check(scene([item], (1, 37))))


def test_an_object_that_contains_itself_is_a_finding() -> None:
    """An alias can do that."""
    item = pod()
    item["spec"]["self"] = item
    assert [spot.path for spot in spots("S001", item)] == [()]


def test_a_deep_schema_is_a_finding_at_most() -> None:
    """The API server takes nested schemas, Python nested calls only so far."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"x": schema}}
    version = {"name": "v1", "served": True, "storage": True}
    item = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "xs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "X", "plural": "xs"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    assert len(spots("S001", item)) <= 1


def test_schemas_of_a_version_are_read_once() -> None:
    """They are 2 MB of JSON."""
    first = schemas_of((1, 37))
    assert isinstance(first, Schemas)
    assert schemas_of((1, 37)) is first
    assert first.validator(("v1", "Pod")) is first.validator(("v1", "Pod"))
