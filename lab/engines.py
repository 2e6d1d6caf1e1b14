"""Mock an engine: one `dynamo.mocker` per replica, with the shape of the release it stands for.

Mocked are the GPUs and their time only. What the mocker gets from the release: its job, block
size, number of cache blocks (from K3's memory model), batch limits; what it gets from a
calibration: prefill and decode speed. All token counts are divided by the rehearsal's scale, so
that a scaled-down session fills the same share of the cache as a real one.

The mocker schedules as vLLM does, whatever the engine is: Dynamo 1.6.1 also has `--engine-type
sglang`, but that one reports no cached tokens, and they are what a rehearsal is judged by.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from fleet.hardware import Hardware
from fleet.load import Fleet
from fleet.memory import replica_memory
from fleet.model import Model
from fleet.release import Release, Role, release_for
from lab.faults import Fault, fault_flags, script_file

# Fitted by hand to InferenceX #3079 (K3, GB300, TP8 x DCP8, concurrency 48), checked at
# concurrency 70: TTFT within 4 %, TPOT 20 % low, output 7 % low. Good for shape and order.
PREFILL_TOKENS_PER_S = 21_700.0
DECODE_BASE_MS = 9.0
DECODE_PER_SEQUENCE_MS = 0.48
DECODE_PER_MILLION_TOKENS_MS = 3.0
PREFILL_BASE_MS = 3.0
MIN_BLOCKS = 64
# From prefill to decode over the fabric memory of one NVL72 rack, per GPU (TensorRT-LLM,
# examples/kimi_k3/disagg/README.md). Left alone, the mocker takes no time for it.
KV_TRANSFER_GB_PER_S = 455
# Where frontends look for engines that only prefill, and for all others.
PREFILL_ENDPOINT = "prefill.generate"
ENDPOINT = "backend.generate"
SPEED_TABLE = "speed.npz"


class EngineShape(BaseModel):
    """What one mocked replica is given; token counts are already divided by the scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    blocks: int
    block_size: int
    max_num_seqs: int
    max_batched_tokens: int
    kv_bytes_per_token: int  # of one scaled token, so that a cache takes its real time to send
    fault: Fault | None = None  # what is wrong with it, in the rehearsal of a rollout

    @property
    def endpoint(self) -> str:
        """The Dynamo component and endpoint where frontends look for this job."""
        return PREFILL_ENDPOINT if self.role == "prefill" else ENDPOINT


def engine_shape(
    model: Model, hardware: Hardware, release: Release, role: Role, token_scale: int
) -> EngineShape:
    """Derive the mocked engine of one job of a release, scaled down by `token_scale`."""
    memory = replica_memory(model, hardware, release, role)
    release = release_for(release, role)
    return EngineShape(
        role=role,
        blocks=max(MIN_BLOCKS, memory.kv_tokens // (release.block_size * token_scale)),
        block_size=release.block_size,
        max_num_seqs=release.max_num_seqs,
        max_batched_tokens=max(release.block_size, release.max_batched_tokens // token_scale),
        kv_bytes_per_token=model.kv_bytes_per_token(release.kv_dtype) * token_scale,
    )


def mocked_engines(fleet: Fleet, token_scale: int) -> dict[str, dict[Role, EngineShape]]:
    """Derive the engines of a fleet by release id and job; a house engine is not mocked."""
    release = fleet.release
    if release.engine.custom is not None:
        return {}
    return {
        fleet.release_id: {
            role: engine_shape(fleet.model, fleet.hardware, release, role, token_scale)
            for role in release.roles
        }
    }


def write_speed_table(path: Path, token_scale: int) -> None:
    """Write the mocker's timing table: scaled tokens → the milliseconds real tokens take.

    One scaled token stands for `token_scale` real ones in a prompt, so prefill is that much
    slower per token; a decode step stays a decode step.
    """
    prompt = np.array([1, 256, 1024, 8192, 65_536, 262_144, 1_048_576], dtype=float)
    prefill_ms = PREFILL_BASE_MS + prompt * token_scale / PREFILL_TOKENS_PER_S * 1000
    active = np.linspace(0, 26e6 / token_scale, 131)
    context = np.array([1, 1000, 5000, 20_000, 50_000, 100_000, 200_000, 1_000_000], dtype=float)
    sequences = np.clip(active[:, None] / context[None, :], 1, 256)
    decode_ms = (
        DECODE_BASE_MS
        + DECODE_PER_SEQUENCE_MS * sequences
        + DECODE_PER_MILLION_TOKENS_MS * active[:, None] * token_scale / 1e6
    )
    np.savez(
        path,
        prefill_isl=prompt,
        prefill_ttft_ms=prefill_ms,
        decode_active_kv_tokens=active,
        decode_context_length=context,
        decode_itl=decode_ms,
    )


def mocker_argv(
    shape: EngineShape,
    *,
    python: str,
    model_dir: Path,
    model_name: str,
    tables: Path,
) -> tuple[str, ...]:
    """Build the command of one mocked replica; its identity comes by environment.

    `tables`: the folder with the speed table and the scripts.
    """
    split = (
        *("--disaggregation-mode", shape.role),
        *("--kv-bytes-per-token", str(shape.kv_bytes_per_token)),
        *("--kv-transfer-bandwidth", str(KV_TRANSFER_GB_PER_S)),
    )
    return (
        *(python, "-m", "dynamo.mocker"),
        *("--model-path", str(model_dir), "--model-name", model_name),
        *("--num-workers", "1", "--speedup-ratio", "1"),
        *("--block-size", str(shape.block_size)),
        *("--num-gpu-blocks-override", str(shape.blocks)),
        *("--max-num-seqs", str(shape.max_num_seqs)),
        *("--max-num-batched-tokens", str(shape.max_batched_tokens)),
        *("--planner-profile-data", str(tables / SPEED_TABLE)),
        *("--response-replay-trace-path", str(script_file(tables, shape.fault))),
        *("--discovery-backend", "kubernetes"),
        *(() if shape.role == "aggregated" else split),
        *fault_flags(shape.fault, shape.block_size),
    )
