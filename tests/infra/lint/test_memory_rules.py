"""What the memory rules read out of command lines, against the releases these come from."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.load import load_hardware, load_model, load_release, preset_names
from fleet.memory import divide_memory, memory_shape, replica_memory
from fleet.release import Release, Role, release_for
from infra.engine import engine_env, engine_roles
from infra.lint.commands import Command
from infra.lint.engine_shape import engine_shape
from infra.lint.manifest import Manifest
from infra.lint.rule import Finding
from infra.lint.rules.memory import RULES
from infra.lint.scene import Scene
from infra.lint.weights_source import serves

HERE = Path()
K3 = load_model("kimi-k3", beside=HERE)
GB300 = load_hardware("gb300-nvl72", beside=HERE)
GB200 = load_hardware("gb200-nvl72", beside=HERE)
ROLES: list[tuple[str, Role]] = [
    (preset, role)
    for preset in preset_names("release")
    for role in dict.fromkeys(load_release(preset, beside=HERE).roles)
]


@functools.cache
def preset_release(preset: str, role: Role) -> Release:
    return release_for(load_release(preset, beside=HERE), role)


def pod(words: list[str], **parts: Any) -> dict[str, Any]:
    """Describe a deployment that runs a command; parts of its container, and of its pod."""
    image = "vllm/vllm-openai:v0.29.0"
    container = {"name": "main", "image": image, "command": words, **parts.pop("container", {})}
    meta = {"annotations": parts.pop("annotations", {})}
    template = {"metadata": meta, "spec": {"containers": [container], **parts}}
    return {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": template}}


def scene(*objects: Mapping[str, Any]) -> Scene:
    manifests = tuple(Manifest(file="x.yaml", data=dict(item)) for item in objects)
    return Scene(manifests=manifests, kubernetes=(1, 37), model=K3, hardware=GB300)


def lint(*objects: Mapping[str, Any]) -> list[Finding]:
    found = scene(*objects)
    return [Finding.of(rule, spot) for rule in RULES for spot in rule.check(found)]


def command(*words: str) -> Command:
    (found,) = scene(pod(list(words))).commands
    return found


def rendered(release: Release, role: Role) -> dict[str, Any]:
    """Write the pod of a release's leader as its replicas have it."""
    leader, _ = engine_roles(K3, release, role)
    env = [{"name": name, "value": text} for name, text in engine_env(release, "demo").items()]
    gb200 = release.name.endswith("gb200")
    return pod(
        [*leader.command, *leader.args],
        annotations={"k3fleet.io/engine-version": release.engine.version},
        container={"env": env},
        nodeSelector={"nvidia.com/gpu.product": (GB200 if gb200 else GB300).gpu_product},
    )


@pytest.mark.parametrize(("preset", "role"), ROLES)
def test_a_rendered_command_says_what_its_release_says(preset: str, role: Role) -> None:
    """Both ways are written by hand: a flag forgotten in one would judge another replica."""
    release = preset_release(preset, role)
    (found,) = scene(rendered(release, role)).commands
    shape = engine_shape(found)
    if release.engine.kind == "trtllm":  # most of it is in a file
        assert shape is None
        return
    assert shape is not None
    assert serves(found, K3)
    read = shape.memory_shape(K3)
    assert read == memory_shape(K3, release)
    hardware = GB200 if preset.endswith("gb200") else GB300
    assert divide_memory(K3, hardware, read) == replica_memory(K3, hardware, release)
    assert (shape.role, shape.expert) == (role, release.parallelism.expert)
    assert shape.max_sequences == release.max_num_seqs
    drafted = release.speculation.tokens if release.speculation else None
    assert (shape.draft.tokens if shape.draft else None) == drafted


@pytest.mark.parametrize(("preset", "role"), ROLES)
def test_no_preset_breaks_a_rule(preset: str, role: Role) -> None:
    """What it holds may be said; a release that loads is one that fits."""
    release = preset_release(preset, role)
    spoken = [item for item in lint(rendered(release, role)) if item.severity != "info"]
    assert spoken == []


def test_1800_equal_replicas_are_one_line() -> None:
    """What 200 racks hold is the same 1,800 times, and nobody reads on after the second."""
    one = rendered(preset_release("vllm-tp8-dcp8", "aggregated"), "aggregated")
    (found,) = lint(*[one] * 1800)
    assert found.rule == "M004"
    assert found.what.endswith("(and 1799 more of this shape)")


def test_a_broken_replica_is_shown_each_time() -> None:
    """Each is a place to correct."""
    words = ["vllm", "serve", "moonshotai/Kimi-K3", "--tensor-parallel-size", "4"]
    assert [item.rule for item in lint(*[pod(words)] * 3)] == ["M001"] * 3


def test_leader_and_workers_are_one_engine() -> None:
    """They run the same command, and would else be told twice of one mistake."""
    words = ["vllm", "serve", "Kimi-K3"]
    leader, worker = (
        {"spec": {"containers": [{"name": "main", "command": [*words, *more]}]}}
        for more in ([], ["--headless"])
    )
    templates = {"size": 2, "leaderTemplate": leader, "workerTemplate": worker}
    group = {"kind": "LeaderWorkerSet", "spec": {"leaderWorkerTemplate": templates}}
    assert [item.rule for item in lint(group)] == ["M001"]


@pytest.mark.parametrize(
    ("words", "judged"),
    [
        (["--model", "moonshotai/Kimi-K3"], True),
        (["--model", "/models/Kimi-K3"], True),
        (["--model", "/hub/models--moonshotai--Kimi-K3/snapshots/9f62"], True),
        (["--model", "/weights", "--served-model-name", "moonshotai/Kimi-K3"], True),
        (["--model", "$MODEL", "--served-model-name", "kimi-k3"], True),
        (["--model", "nvidia/Kimi-K3-NVFP4", "--served-model-name", "kimi-k3"], False),
        (["--model", "/models/Kimi-K3-NVFP4", "--served-model-name", "kimi-k3"], False),
        (["--model", "/weights", "--served-model-name", "chat"], False),
        (["--model", "/weights"], False),
        ([], False),
    ],
)
def test_only_the_described_weights_are_judged(words: list[str], judged: bool) -> None:
    """A variant in 4 bits of everything has other sizes, under the same served name."""
    assert serves(command("python3", "-m", "dynamo.vllm", *words), K3) is judged


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("131072", 131_072),
        ("128k", 128_000),
        ("128K", 131_072),
        ("1M", 1_048_576),
        ("0.5m", 500_000),
        *((text, "auto") for text in ("-1", "auto", "", "9" * 5000)),
    ],
)
def test_lengths_are_read_as_vllm_does(text: str, tokens: object) -> None:
    """A small letter counts in thousands, a capital one in powers of two."""
    shape = engine_shape(command("vllm", "serve", "K3", f"--max-model-len={text}"))
    assert shape is not None
    assert shape.context_tokens == tokens


@pytest.mark.parametrize("size", ["0", "-1", "eight", "", "8.5", "9" * 5000, "$TP", "$(TP)"])
def test_a_size_that_is_none_says_nothing(size: str) -> None:
    """The engine's own parser will; here it must not end in a traceback."""
    assert engine_shape(command("vllm", "serve", "K3", f"--tensor-parallel-size={size}")) is None


@pytest.mark.parametrize(
    "config", ["{", "[]", "null", '{"model": 1, "num_speculative_tokens": "7"}', "[" * 100_000]
)
def test_an_unreadable_draft_is_an_unknown_one(config: str) -> None:
    """To count none would promise room that the draft takes."""
    words = ["vllm", "serve", "K3", "--kv-cache-dtype=fp8", "--tensor-parallel-size=8"]
    shape = engine_shape(command(*words, "--speculative-config", config))
    assert shape is not None
    assert shape.draft is not None
    assert shape.memory_shape(K3) is None


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("Inferact/Kimi-K3-DSpark", "Inferact/Kimi-K3-DSpark"),
        ("/draft", "Inferact/Kimi-K3-DSpark"),
        ("/models/Kimi-K3-DSpark", "Inferact/Kimi-K3-DSpark"),
        ("/models/Kimi-K3-DSpark-Block5", None),
        ("RedHatAI/Kimi-K3-speculator.dspark", None),
    ],
)
def test_a_path_stands_for_the_only_draft_of_its_method(source: str, name: str | None) -> None:
    """Every deployment mounts it somewhere else; another repository is another model."""
    config = f'{{"method": "dspark", "model": "{source}"}}'
    shape = engine_shape(command("vllm", "serve", "K3", "--speculative-config", config))
    assert shape is not None
    assert shape.draft_name(K3) == name


WRONG: list[Any] = [None, 7, "text", [], {}, [None], [7], {"a": None}]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("key", ["nodeSelector", "affinity", "resources", "nodeAffinity", "terms"])
def test_placement_of_a_wrong_type_is_no_placement(key: str, wrong: Any) -> None:
    """Schema rules say so; this one must not raise."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    nested = {
        "nodeAffinity": {"affinity": {"nodeAffinity": wrong}},
        "terms": {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": wrong}}}},
        "resources": {"container": {"resources": {"limits": wrong, "requests": wrong}}},
    }
    words = ["vllm", "serve", "moonshotai/Kimi-K3"]
    assert [item.rule for item in lint(pod(words, **nested.get(key, {key: wrong})))] == ["M001"]
