"""The command line and settings file of TensorRT-LLM."""

from __future__ import annotations

from pathlib import Path

import yaml

from fleet.load import load_model, load_release
from infra.engine import SETTINGS_MOUNT, engine_roles

K3 = load_model("kimi-k3", beside=Path())
RELEASE = load_release("trtllm-tep8", beside=Path())


def test_the_settings_file_says_what_the_guide_says() -> None:
    """TEP8 of NVIDIA's guide for K3, with prefix reuse and the model's whole context."""
    role = engine_roles(K3, RELEASE, placed_by_operator=True)[0]
    assert yaml.safe_load(role.files["engine.yaml"]) == {
        "tensor_parallel_size": 8,
        "moe_expert_parallel_size": 8,
        "enable_attention_dp": False,
        "max_batch_size": 32,
        "max_num_tokens": 8192,
        "max_seq_len": 1_048_576,
        "trust_remote_code": True,
        "enable_chunked_prefill": True,
        "disable_overlap_scheduler": False,
        "cuda_graph_config": {"max_batch_size": 32},
        "kv_cache_config": {
            "dtype": "auto",
            "tokens_per_block": 64,
            "free_gpu_memory_fraction": 0.4,
            "enable_block_reuse": True,
            "mamba_state_config": {"periodic_snapshot_interval": 256},
        },
    }


def test_reuse_without_kept_states_is_off() -> None:
    """Blocks alone cannot be resumed from, so keeping them would only take memory."""
    role = engine_roles(K3, RELEASE.model_copy(update={"state_interval": None}))[0]
    cache = yaml.safe_load(role.files["engine.yaml"])["kv_cache_config"]
    assert cache["enable_block_reuse"] is False
    assert "mamba_state_config" not in cache


def test_the_command_reads_the_file_that_it_brings() -> None:
    """A path that is not mounted ends the engine after the weights are loaded."""
    role = engine_roles(K3, RELEASE)[0]
    path = role.args[role.args.index("--extra-engine-args") + 1]
    assert [path] == [f"{SETTINGS_MOUNT}/{name}" for name in role.files]


def test_events_are_published_only_when_asked() -> None:
    """The router counts on them, and they need the engine to keep a buffer."""
    off = engine_roles(K3, RELEASE.model_copy(update={"kv_events": False}))[0]
    on = engine_roles(K3, RELEASE)[0]
    flag = "--publish-kv-events"
    assert (flag in on.args, flag in off.args) == (True, False)
