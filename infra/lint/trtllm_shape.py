"""Read out of TensorRT-LLM's settings how it splits the model and what it caches.

The way back from `infra/engine_trtllm.py`. Only Dynamo's worker is read, whose settings
are a file that a ConfigMap holds; what else there is leaves the shape open.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fleet.flag_target import TRTLLM_SETTINGS
from fleet.model import KvDtype
from fleet.units import whole_number
from infra.lint.commands import Command
from infra.lint.engine_shape import DraftChoice, EngineShape, role_of
from infra.lint.mounted import ConfigMaps, mounted_text
from infra.lint.pods import PodTemplate
from infra.lint.yaml_stream import parse_stream

# What the fields of a shape are called in the file.
SETTINGS: Mapping[str, str] = {
    "tensor": "tensor_parallel_size",
    "pipeline": "pipeline_parallel_size",
    "expert": "moe_expert_parallel_size",
    "context_tokens": "max_seq_len",
    "max_num_seqs": "max_batch_size",
    "gpu_memory_utilization": "kv_cache_config.free_gpu_memory_fraction",
}
# Settings that change the memory of a GPU: given on the command line they win over the file.
_DECIDE = frozenset(
    {
        *(name.partition(".")[0] for name in SETTINGS.values()),
        *("enable_attention_dp", "speculative_config", "quant_config", "context_parallel_size"),
    }
)
_KV_DTYPES: Mapping[str, KvDtype] = {"auto": "bfloat16", "bfloat16": "bfloat16", "fp8": "fp8"}
_SIZED_BY_HAND = frozenset({"max_tokens", "max_gpu_total_bytes"})
_SPLITS = ("tensor", "pipeline")


def trtllm_shape(
    command: Command, template: PodTemplate, config_maps: ConfigMaps
) -> EngineShape | None:
    """Read how a TensorRT-LLM engine runs; None: it is none, or part of it is not known."""
    file = command.value("--extra-engine-args")
    if command.program != "dynamo.trtllm" or not file or _changes_the_file(command):
        return None
    text = mounted_text(file, command.container, template, config_maps)
    settings = _settings(text) if text else None
    return _shape(command, settings) if settings else None


@lru_cache(maxsize=64)
def _settings(text: str) -> Mapping[str, Any] | None:
    """Read a file of settings; None: it is no YAML, or no mapping."""
    stream = parse_stream(text, "")
    data = stream[0].data if isinstance(stream, list) and len(stream) == 1 else None
    return data if isinstance(data, dict) else None


def _changes_the_file(command: Command) -> bool:
    keys = [
        word.removeprefix(TRTLLM_SETTINGS).partition(".")[0].partition("=")[0]
        for word in command.texts
        if word.startswith(TRTLLM_SETTINGS)
    ]
    return command.has("--override-engine-args") or not _DECIDE.isdisjoint(keys)


def _shape(command: Command, settings: Mapping[str, Any]) -> EngineShape | None:
    cache = settings.get("kv_cache_config")
    cache = cache if isinstance(cache, dict) else {}
    tensor, pipeline = (whole_number(settings.get(SETTINGS[name], 1)) for name in _SPLITS)
    if not tensor or not pipeline or settings.get("quant_config"):
        return None
    share = cache.get("free_gpu_memory_fraction")
    return EngineShape(
        engine="trtllm",
        version=command.versions.engine,
        role=role_of(command.value("--disaggregation-mode")),
        tensor=tensor,
        pipeline=pipeline,
        data=tensor if settings.get("enable_attention_dp") else 1,
        expert=whole_number(settings.get(SETTINGS["expert"], 1)) or 1,
        decode_context=None,
        kv_dtype=_KV_DTYPES.get(str(cache.get("dtype", "auto"))),
        state_dtype="float32",
        state_pool_ratio=None,
        gpu_memory_utilization=share if isinstance(share, float) and 0 < share <= 1 else None,
        context_tokens=whole_number(settings.get(SETTINGS["context_tokens"])),
        max_sequences=whole_number(settings.get(SETTINGS["max_num_seqs"])),
        states_per_sequence=1,
        draft=DraftChoice(None, None, None) if settings.get("speculative_config") else None,
        block_size=whole_number(cache.get("tokens_per_block")),
        sized_by_hand=not _SIZED_BY_HAND.isdisjoint(cache),
    )
