"""Write the command line and the settings file of TensorRT-LLM, inside Dynamo's worker.

Its ranks are MPI processes that the first node starts on the others: the
launcher, keys and daemons for that are brought by Dynamo's operator, which runs
this command once per GPU.
"""

from __future__ import annotations

import yaml

from fleet.release import Release
from infra.engine_job import (
    SETTINGS_MOUNT,
    WEIGHTS_MOUNT,
    EngineJob,
    EngineRole,
    Flags,
    words,
)

_COMMAND = ("python3", "-m", "dynamo.trtllm")
_SETTINGS_FILE = "engine.yaml"

_KV_DTYPES = {"fp8": "fp8", "bfloat16": "auto"}


def trtllm_roles(job: EngineJob) -> tuple[EngineRole, EngineRole]:
    """Give the command and the settings of the leader and of the other nodes."""
    release = job.release
    args = (*words(_flags(job)), *release.args)
    files = {_SETTINGS_FILE: yaml.safe_dump(_settings(job), sort_keys=False)}
    return (
        EngineRole(serves=True, command=_COMMAND, args=args, files=files),
        EngineRole(serves=False, command=_COMMAND, args=args, files=files),
    )


def _flags(job: EngineJob) -> Flags:
    flags: dict[str, str | None] = {
        "--model": WEIGHTS_MOUNT,
        "--served-model-name": job.model.repo,
        "--extra-engine-args": f"{SETTINGS_MOUNT}/{_SETTINGS_FILE}",
        # In the file as well; here because the operator counts processes by it.
        "--tensor-parallel-size": str(job.release.parallelism.tensor),
        "--kv-block-size": str(job.release.block_size),
        "--dyn-reasoning-parser": job.model.reasoning_parser,
        "--dyn-tool-call-parser": job.model.tool_call_parser,
    }
    if job.publishes_events:
        flags["--publish-kv-events"] = None
    return flags


def _settings(job: EngineJob) -> dict[str, object]:
    """Say in TensorRT-LLM's words what the typed fields say."""
    release, split = job.release, job.release.parallelism
    return {
        "tensor_parallel_size": split.tensor,
        "moe_expert_parallel_size": split.expert,
        "enable_attention_dp": split.attention_data > 1,
        "max_batch_size": release.max_num_seqs,
        "max_num_tokens": release.max_batched_tokens,
        "max_seq_len": job.model.context_tokens,
        "trust_remote_code": True,
        # Prompts longer than max_num_tokens need it.
        "enable_chunked_prefill": True,
        "disable_overlap_scheduler": False,
        # The same as the batch, or larger batches would run without graphs.
        "cuda_graph_config": {"max_batch_size": release.max_num_seqs},
        "kv_cache_config": _cache_settings(release),
    }


def _cache_settings(release: Release) -> dict[str, object]:
    """Describe the cache: a prefix is found again only where a state was kept."""
    interval = release.state_interval or 0
    settings: dict[str, object] = {
        "dtype": _KV_DTYPES[release.kv_dtype],
        "tokens_per_block": release.block_size,
        "free_gpu_memory_fraction": release.gpu_memory_utilization,
        "enable_block_reuse": interval > 0,
    }
    if interval:
        settings["mamba_state_config"] = {"periodic_snapshot_interval": interval}
    return settings
