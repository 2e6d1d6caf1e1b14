"""Name the engine flags that typed fields of a release decide.

One table for two uses: rendering the flags, and refusing a release whose `args`
say the same thing a second time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

FIELD_FLAGS: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "tensor": "--tensor-parallel-size",
        "decode_context": "--decode-context-parallel-size",
        "kv_dtype": "--kv-cache-dtype",
        "state_dtype": "--mamba-ssm-cache-dtype",
        "state_interval": "--prefix-cache-retention-interval",
        "block_size": "--prefix-match-unit",
        "max_num_seqs": "--max-num-seqs",
        "max_batched_tokens": "--max-num-batched-tokens",
        "gpu_memory_utilization": "--gpu-memory-utilization",
        "context_tokens": "--max-model-len",
    },
    "sglang": {
        "tensor": "--tp-size",
        "decode_context": "--dcp-size",
        "kv_dtype": "--kv-cache-dtype",
        "state_dtype": "--mamba-ssm-dtype",
        "state_interval": "--mamba-track-interval",
        "state_pool_ratio": "--mamba-full-memory-ratio",
        "block_size": "--page-size",
        "max_num_seqs": "--max-running-requests",
        "max_batched_tokens": "--chunked-prefill-size",
        "gpu_memory_utilization": "--mem-fraction-static",
        "context_tokens": "--context-length",
    },
    # Mostly written into a file of settings (`infra/engine_trtllm.py`), which wins over flags.
    "trtllm": {
        "tensor": "--tensor-parallel-size",
        "block_size": "--kv-block-size",
        "max_num_seqs": "--max-batch-size",
        "max_batched_tokens": "--max-num-tokens",
        "gpu_memory_utilization": "--free-gpu-memory-fraction",
        "context_tokens": "--max-seq-len",
    },
    "custom": {},
}

# Engines spell the same value differently, a typical copy error.
VALUE_SPELLING: Mapping[str, Mapping[str, str]] = {
    "vllm": {},
    "sglang": {"fp8": "fp8_e4m3"},
    "trtllm": {},
    "custom": {},
}

# Decided by the model file, by the place of a pod or by a section of the release, so never by
# `args`.
PLACED_FLAGS = frozenset(
    {
        "--model",
        "--model-path",
        "--revision",
        "--served-model-name",
        "--dyn-reasoning-parser",
        "--dyn-tool-call-parser",
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--dist-init-addr",
        "--headless",
        # parallelism
        "--data-parallel-size",
        "--enable-expert-parallel",
        "--expert-parallel-size",
        "--enable-attention-dp",
        "--ep-size",
        "--dp-size",
        "--attn-dp-size",
        "--enable-dp-attention",
        # speculation
        "--speculative-config",
        "--speculative-algorithm",
        "--speculative-draft-model-path",
        "--speculative-dspark-block-size",
        "--speculative-dflash-block-size",
        # disaggregation
        "--disaggregation-mode",
        "--disaggregation-transfer-backend",
        "--disaggregation-bootstrap-port",
        # TensorRT-LLM's file of settings
        "--extra-engine-args",
        "--override-engine-args",
    }
)

# Dynamo's workers take these too. They say where an engine is found, which is the place of a pod:
# in another namespace no frontend of the region would ever see it.
WORKER_FLAGS = frozenset(
    {
        "--namespace",
        "--endpoint",
        "--discovery-backend",
        "--request-plane",
        "--event-plane",
    }
)

_NUMBERS = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)")
NEWEST = (10**6,)


def engine_version(text: str) -> tuple[int, ...]:
    """Give the numbers of a version; a name such as `main` counts as the newest."""
    found = _NUMBERS.match(text)
    return tuple(int(part) for part in found[1].split(".")) if found else NEWEST
