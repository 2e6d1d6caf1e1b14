"""Anything may stand anywhere in a manifest: no rule may end in a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from lint_cases import FOLDER, base, scene

from fleet.yaml_document import NodePath
from infra.lint.manifest import Manifest
from infra.lint.rule import Finding
from infra.lint.ruleset import RULES

BASES = sorted(path.stem for path in (FOLDER / "bases").glob("*.yaml"))
SEEDS = 12
ROUNDS = 12  # of each seed
CHANGES = 4  # of one object in each round
WRONG: list[Any] = [
    *(None, True, -1, 7, 10**30, float("nan"), float("inf")),
    *("", "text", "²", "9" * 5000, "$(X)", "{" * 2000, "--seed", "\x1b[31m\n\u202e"),
    *([], {}, [None], [["a"]], [7], {"a": {"b": 1}}),
    *([{"name": ["a"]}], {"name": [1], "key": {"x": 1}}, {"name": {"x": 1}, "value": []}),
]


def paths(data: object, path: NodePath = ()) -> Iterator[NodePath]:
    """Yield the path of everything inside an object."""
    if path:
        yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from paths(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from paths(value, (*path, index))


def broken(manifest: Manifest, random: Random) -> Manifest:
    """Put something wrong at a few places of an object; its type stays, so that rules look."""
    data = copy.deepcopy(manifest.data)
    for _ in range(CHANGES):
        *parents, last = random.choice([path for path in paths(data) if path[0] not in KEPT])
        place: Any = data
        for part in parents:
            place = place[part]
        place[last] = copy.deepcopy(random.choice(WRONG))
    return replace(manifest, data=data)


KEPT = frozenset({"apiVersion", "kind"})


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_wrong_types_are_findings_and_no_traceback(name: str, seed: int) -> None:
    """Rules see what a schema rule has already refused; the next mistake must be named, too."""
    random = Random(seed)  # noqa: S311 - no secret
    for _ in range(ROUNDS):
        manifests = list(base(name))
        number = random.randrange(len(manifests))
        manifests[number] = broken(manifests[number], random)
        found = scene(tuple(manifests))
        for rule in RULES:
            for spot in rule.check(found):
                assert Finding.of(rule, spot).what


@pytest.mark.parametrize(
    ("key", "items"),
    [
        ("volumes", [7, {"name": ["a"]}, {"name": {"a": 1}, "configMap": ["x"]}]),
        ("resourceClaims", ["x", {"name": ["a"]}, {"resourceClaimTemplateName": [None]}]),
        ("tolerations", ["x", {"value": ["x"]}, {"key": {}}]),
        ("initContainers", [7, {"name": []}, {"volumeMounts": [{"name": {}}], "args": "text"}]),
        ("containers", [{"volumeMounts": [{"name": [], "subPath": "x", "mountPath": {}}]}]),
        (
            "containers",
            [{"resources": {"claims": [{"name": {}}], "limits": {"nvidia.com/gpu": []}}}],
        ),
        ("containers", [{"startupProbe": {"failureThreshold": True, "periodSeconds": ".inf"}}]),
        ("containers", [{"args": ["--kv-events-config", "7"]}]),
        ("containers", [{"args": ["--kv-events-config", "[" * 100_000]}]),
        ("containers", [{"args": ["--stream-interval", "²", "--block-size", "9" * 5000]}]),
    ],
)
def test_lists_of_a_pod_may_hold_anything(key: str, items: list[dict[str, Any]]) -> None:
    """Each of these has ended a rule in a traceback, or would have."""
    containers: list[Any] = [
        {"name": "main", "image": "vllm/vllm-openai:v0.29.0", "command": ["vllm", "serve", "K3"]}
    ]
    pod: dict[str, Any] = {"containers": containers, key: items}
    if key == "containers":
        pod["containers"] = [{**containers[0], **items[0]}]
    data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod}
    found = scene((Manifest(file="x.yaml", data=data),))
    ids = {rule.id for rule in RULES for _ in rule.check(found)}
    assert "K021" in ids, "the rules must have seen an engine"
