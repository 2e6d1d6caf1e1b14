"""TensorRT-LLM's settings, read out of a ConfigMap, and judged by the memory rules."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from lint_cases import scene

from infra.lint.engine_memory import judged_engines
from infra.lint.manifest import Manifest
from infra.lint.rule import Finding
from infra.lint.rules.memory import RULES

SETTINGS: dict[str, Any] = {
    "tensor_parallel_size": 8,
    "moe_expert_parallel_size": 8,
    "max_seq_len": 1_048_576,
    "max_batch_size": 32,
    "kv_cache_config": {
        "dtype": "auto",
        "tokens_per_block": 64,
        "free_gpu_memory_fraction": 0.4,
    },
}
CACHE: dict[str, Any] = SETTINGS["kv_cache_config"]
REPO = "moonshotai/Kimi-K3"


def manifests(
    text: str, *arguments: str, volume: dict[str, Any] | None = None
) -> tuple[Manifest, ...]:
    """Write a worker and the ConfigMap that holds its settings."""
    container = {
        "name": "main",
        "image": "nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.6.1",
        "command": ["python3", "-m", "dynamo.trtllm", "--model", REPO],
        "args": ["--extra-engine-args", "/settings/engine.yaml", *arguments],
        "volumeMounts": [{"name": "settings", "mountPath": "/settings"}],
    }
    volumes = [{"name": "settings", **(volume or {"configMap": {"name": "engine"}})}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "engine"},
        "spec": {"containers": [container], "volumes": volumes},
    }
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "engine"},
        "data": {"engine.yaml": text},
    }
    return Manifest(file="x.yaml", data=pod), Manifest(file="x.yaml", data=config_map)


def said(text: str, *arguments: str, volume: dict[str, Any] | None = None) -> list[Finding]:
    found = scene(manifests(text, *arguments, volume=volume))
    return [Finding.of(rule, spot) for rule in RULES for spot in rule.check(found)]


def settings(**changes: Any) -> str:
    return yaml.safe_dump({**SETTINGS, **changes})


def test_what_fits_is_said() -> None:
    """States are kept beside the tokens, and nobody knows how many: they are left out."""
    (found,) = said(settings())
    assert found.rule == "M004"
    assert found.what == ("8 ranks hold 1.2 M tokens of KV: a context of up to 1,048,576 tokens")


def test_a_share_that_is_too_small_for_one_request_is_an_error() -> None:
    """The guide's 0.25 is for 8,192 tokens; a release of this shape is refused, too."""
    first, _ = said(settings(kv_cache_config={**CACHE, "free_gpu_memory_fraction": 0.25}))
    assert (first.rule, first.what.partition(": ")[2].partition(" holds")[0]) == (
        "M002",
        "0.25 of 278 GiB less 181 GiB weights and 17.2 GiB runtime",
    )
    assert first.fix.endswith("or raise kv_cache_config.free_gpu_memory_fraction")


def test_four_ranks_cannot_hold_the_weights() -> None:
    """As with the other engines; the fix names the setting, not another engine's flag."""
    found = next(item for item in said(settings(tensor_parallel_size=4)) if item.rule == "M001")
    assert found.fix == "Use tensor_parallel_size 8 on 2 nodes"


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_attention_dp": True},
        {"pipeline_parallel_size": 2},
        {"speculative_config": {"decoding_type": "MTP"}},
        {"quant_config": {"quant_algo": "NVFP4"}},
        {"kv_cache_config": {**CACHE, "max_tokens": 4096}},
        {"kv_cache_config": {**CACHE, "dtype": "nvfp4"}},
        {"kv_cache_config": {**CACHE, "free_gpu_memory_fraction": "0.4"}},
        {"kv_cache_config": [1]},
        {"tensor_parallel_size": "eight"},
        {"tensor_parallel_size": 0},
    ],
)
def test_what_is_not_known_is_not_judged(changes: dict[str, Any]) -> None:
    """A wrong number is worse than none."""
    assert said(settings(**changes)) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--override-engine-args", '{"max_seq_len": 8192}'),
        ("--trtllm.kv_cache_config.free_gpu_memory_fraction", "0.9"),
        ("--trtllm.max_seq_len", "8192"),
    ],
)
def test_settings_over_those_of_the_file_leave_it_open(arguments: tuple[str, ...]) -> None:
    """They win, in ways that only the engine knows."""
    assert said(settings(), *arguments) == []


def test_a_setting_that_decides_no_memory_changes_nothing() -> None:
    """Our own preset has two of them."""
    assert len(said(settings(), "--trtllm.moe_config.max_num_tokens", "33024")) == 1


@pytest.mark.parametrize(
    "text", ["", "a: b: c", "[1]", "7", "a: 1\n---\nb: 2\n", "a: *b", "[" * 200]
)
def test_a_file_that_is_no_settings_is_not_judged(text: str) -> None:
    """The engine says so; here it must not end in a traceback."""
    assert said(text) == []


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "another"}},
        {"configMap": {"name": "engine", "items": [{"key": "engine.yaml", "path": "x"}]}},
        {"configMap": ["engine"]},
        {"emptyDir": {}},
    ],
)
def test_a_file_from_elsewhere_is_not_judged(volume: dict[str, Any]) -> None:
    """It may already be in the cluster."""
    assert said(settings(), volume=volume) == []


def test_the_shape_is_that_of_the_settings() -> None:
    """Batch, block and experts are read, too."""
    (engine,) = judged_engines(scene(manifests(settings())))
    shape = engine.shape
    assert (shape.max_sequences, shape.block_size, shape.expert, shape.role) == (
        32,
        64,
        8,
        "aggregated",
    )
