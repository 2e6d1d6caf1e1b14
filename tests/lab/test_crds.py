"""The lab's custom kinds against the upstream ones, and our objects against both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.load import load_fleet
from infra.options import Layer, Options
from infra.render import KubeObject, render_region

ROOT = Path(__file__).parents[2]
OURS = ROOT / "lab/crds"
UPSTREAM = ROOT.parent / "shared/data/crds"

PAIRS = {
    "leaderworkerset.yaml": "leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    "computedomain.yaml": "resource.nvidia.com_computedomains.yaml",
    "../../charts/crds/dynamo-worker-metadata.yaml": "nvidia.com_dynamoworkermetadatas.yaml",
}
Schema = dict[str, Any]
FieldPath = tuple[str, ...]

# What decides whether an object is accepted and what the server adds to it.
COMPARED = (
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "required",
    "anyOf",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
)
OPEN = "x-kubernetes-preserve-unknown-fields"


def crd(path: Path) -> dict[str, Any]:
    if not path.exists():
        pytest.skip("no upstream definitions on this machine")
    with path.open() as file:
        loaded: dict[str, Any] = yaml.load(file, Loader=yaml.CSafeLoader)
    return loaded


def version(definition: dict[str, Any]) -> dict[str, Any]:
    served = [item for item in definition["spec"]["versions"] if item["served"]]
    assert len(served) == 1
    found: dict[str, Any] = served[0]
    return found


def schema(definition: dict[str, Any]) -> Schema:
    found: Schema = version(definition)["schema"]["openAPIV3Schema"]
    return found


def nodes(tree: Schema, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Schema]]:
    yield path, tree
    for name, child in tree.get("properties", {}).items():
        yield from nodes(child, (*path, name))
    if "items" in tree:
        yield from nodes(tree["items"], (*path, "[]"))


def errors(tree: Schema, value: object, path: str = "") -> Iterator[str]:
    """Say what a strict API server would say, for the part of the language used here."""
    if value is None:
        yield f"{path}: null"
    elif tree.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{path}: neither number nor text"
    elif "type" in tree and not isinstance(value, TYPES[tree["type"]]):
        yield f"{path}: {value!r} is no {tree['type']}"
    elif "enum" in tree and value not in tree["enum"]:
        yield f"{path}: {value!r} is not one of {tree['enum']}"
    elif isinstance(value, int | float) and not (
        tree.get("minimum", value) <= value <= tree.get("maximum", value)
    ):
        yield f"{path}: {value} is out of range"
    elif isinstance(value, list):
        for item in value:
            yield from errors(tree["items"], item, f"{path}[]")
    elif isinstance(value, dict):
        yield from object_errors(tree, value, path)


def object_errors(tree: Schema, value: dict[str, Any], path: str) -> Iterator[str]:
    known = tree.get("properties", {})
    yield from (f"{path}.{name}: missing" for name in tree.get("required", []) if name not in value)
    for name, item in value.items():
        if name in known:
            yield from errors(known[name], item, f"{path}.{name}")
        elif isinstance(tree.get("additionalProperties"), dict):
            yield from errors(tree["additionalProperties"], item, f"{path}.{name}")
        elif not tree.get(OPEN) and path != ".metadata":
            yield f"{path}.{name}: unknown"


TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


@pytest.mark.parametrize(("ours", "upstream"), PAIRS.items())
def test_a_kind_is_called_and_served_as_upstream(ours: str, upstream: str) -> None:
    """Clients find a kind by group, plural, scope and version."""
    mine, theirs = crd(OURS / ours)["spec"], crd(UPSTREAM / upstream)["spec"]
    for key in ("group", "scope", "names"):
        assert mine[key] == theirs[key]
    for key in ("name", "storage", "subresources"):
        assert version({"spec": mine}).get(key) == version({"spec": theirs}).get(key)


@pytest.mark.parametrize(("ours", "upstream"), PAIRS.items())
def test_every_field_of_ours_is_the_upstream_field(ours: str, upstream: str) -> None:
    """A default or a limit that differs shows first on a real cluster."""
    theirs = dict(nodes(schema(crd(UPSTREAM / upstream))))
    for path, mine in nodes(schema(crd(OURS / ours))):
        assert path in theirs
        for key in COMPARED:
            assert as_set(mine.get(key)) == as_set(theirs[path].get(key)), (path, key)


def as_set(value: Any) -> Any:
    """Make lists comparable whose order means nothing."""
    return (
        sorted(json.dumps(item, sort_keys=True) for item in value)
        if isinstance(value, list)
        else value
    )


def custom_objects(folder: Path) -> list[KubeObject]:
    """Render a fleet with both engines, with and without claims."""
    path = folder / "fleet.yaml"
    found: list[KubeObject] = []
    for release in ("vllm-tp8-dcp8", "sglang-tp8-dcp8"):
        path.write_text(
            f"apiVersion: k3fleet/v1\nname: demo\nrelease: {release}\n"
            "regions:\n  - name: us-east\n    racks:\n      - id: use1-r01\n"
        )
        layers: tuple[Layer, ...] = ("platform", "serving")
        for dra in (True, False):
            for layer in layers:
                found += render_region(load_fleet(path), "us-east", layer, Options(dra=dra))
    return [item for item in found if item["kind"] in ("LeaderWorkerSet", "ComputeDomain")]


@pytest.mark.parametrize("folder", [OURS, UPSTREAM], ids=["ours", "upstream"])
def test_what_we_render_is_accepted(tmp_path: Path, folder: Path) -> None:
    """Upstream spells out pod templates, so this also checks those of the engines."""
    files = PAIRS.items() if folder == UPSTREAM else zip(PAIRS, PAIRS, strict=True)
    definitions = [crd(folder / file) for _, file in files]
    by_kind = {item["spec"]["names"]["kind"]: item for item in definitions}
    for item in custom_objects(tmp_path):
        definition = by_kind[item["kind"]]
        group, _, wanted = item["apiVersion"].partition("/")
        assert (group, wanted) == (definition["spec"]["group"], version(definition)["name"])
        assert list(errors(schema(definition), item)) == []
