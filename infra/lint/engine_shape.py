"""Read out of a command line how an engine splits the model and what it caches.

The way back from `infra/engine_vllm.py` and `engine_sglang.py`, for anybody's
command line. What it does not say is None, and never guessed: a rule that needs
it then says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from fleet.engine_flags import engine_version
from fleet.given_flags import GivenFlags, given_flags, json_keys
from fleet.memory import MemoryShape
from fleet.model import KvDtype, Model, StateDtype
from fleet.release import Role
from infra.lint.commands import Command
from infra.lint.images import Versions
from infra.lint.shape_flags import ServingEngine, ShapeFlags
from infra.lint.weights_source import is_local, names_repo, parts

# They bring arguments from elsewhere, other weights or another split: nothing can be said.
_OBSCURING = frozenset(
    {
        "--config",
        "--quantization",
        "--hf-overrides",
        "--json-model-override-args",
        "--cpu-offload-gb",
        "--prefill-context-parallel-size",
        "--attn-cp-size",
        "--moe-dp-size",
        "--dwdp-size",
    }
)
# They set by hand, or change, what the engine else makes of its share of the GPU.
_SIZED_BY_HAND = frozenset(
    {
        "--kv-cache-memory-bytes",
        "--num-gpu-blocks-override",
        "--max-total-tokens",
        "--max-mamba-cache-size",
        "--enable-int8-mamba-checkpoint",
        "--speculative-draft-kv-cache-dtype",
        "--kv-cache-dtype-skip-layers",
    }
)
_KV_DTYPES: Mapping[str, KvDtype] = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
}
_STATE_DTYPES: Mapping[str, StateDtype] = {
    "auto": "float32",  # of both engines, for KDA
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float16": "bfloat16",  # of the same size
}
# vLLM 0.26.0 to 0.33.0; older ones had 0.9, and SGLang computes its own.
_VLLM_UTILIZATION = 0.92
_VLLM_UTILIZATION_SINCE = (0, 26)
# SGLang 0.5.16 and 0.5.18; 0.5.21 computes its own.
_SGLANG_STATE_RATIO = 0.9
_SGLANG_STATE_RATIO_BEFORE = (0, 5, 19)
# States that one request holds, by how prefixes are kept (SGLang cookbook for K3).
_SGLANG_STATES = {"extra_buffer": 5, "extra_buffer_lazy": 4, "no_buffer": 3}
_SGLANG_LEAST_STATES = 3
_VLLM_DRAFT_FLAGS = ("--speculative-config", "--spec-")
_SKIPS_DECODE_LOCK = "SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK"


class DraftChoice(NamedTuple):
    """The draft model of a command line."""

    method: str | None
    source: str | None  # a repository, or a path
    tokens: int | None  # drafted per step


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShape:
    """How one engine splits the model, and what it caches."""

    engine: ServingEngine
    version: str | None
    role: Role
    tensor: int
    pipeline: int
    data: int  # copies of attention, or of the whole engine
    expert: int
    decode_context: int | None  # None: not given, so 1
    kv_dtype: KvDtype | None
    state_dtype: StateDtype | None
    # State bytes over KV bytes; None: one pool of both (vLLM), or not known (SGLang).
    state_pool_ratio: float | None
    gpu_memory_utilization: float | None
    context_tokens: int | Literal["auto"] | None  # auto: what fits; None: the model's
    max_sequences: int | None
    states_per_sequence: int  # at least
    draft: DraftChoice | None
    block_size: int | None
    sized_by_hand: bool

    @property
    def ranks(self) -> int:
        """GPUs that share one copy of the weights."""
        shared = self.data if self.engine == "vllm" else 1
        return self.tensor * self.pipeline * shared

    def draft_name(self, model: Model) -> str | None:
        """Find the draft among those of a model; None: there is none, or it is another."""
        if self.draft is None or self.draft.source is None:
            return None
        source = self.draft.source
        if not is_local(source):
            return source if source in model.drafts else None
        fitting = [
            name
            for name, draft in model.drafts.items()
            if draft.method == self.draft.method and self.engine in draft.engines
        ]
        named = [name for name in fitting if names_repo(source, name)]
        if any(model.name in part for part in parts(source)) and not named:
            return None  # another draft of the same model
        candidates = named or fitting
        return candidates[0] if len(candidates) == 1 else None

    def memory_shape(self, model: Model) -> MemoryShape | None:
        """Give what decides the memory of a GPU; None: the command does not say all of it."""
        draft = self.draft_name(model)
        unknown = (
            self.sized_by_hand
            or self.data > 1
            or self.pipeline > 1
            or self.tensor not in model.weights_per_gpu
            or (self.draft is not None and draft is None)
            or (self.engine == "sglang" and self.state_pool_ratio is None)
        )
        if unknown or not (self.kv_dtype and self.state_dtype and self.gpu_memory_utilization):
            return None
        return MemoryShape(
            engine=self.engine,
            tensor=self.tensor,
            decode_context=self.decode_context or 1,
            kv_dtype=self.kv_dtype,
            state_dtype=self.state_dtype,
            state_pool_ratio=self.state_pool_ratio,
            gpu_memory_utilization=self.gpu_memory_utilization,
            draft=draft,
            block_size=self.block_size or 1,
        )


def engine_shape(command: Command) -> EngineShape | None:
    """Read how a vLLM or SGLang engine runs; None: it is neither, or part of it is not known."""
    if command.engine not in ("vllm", "sglang"):
        return None
    skips = command.container.env.get(_SKIPS_DECODE_LOCK) == "1"
    return _shape(command.program, command.texts, command.versions, skips)


@lru_cache(maxsize=1024)
def _shape(
    program: str, texts: tuple[str, ...], versions: Versions, skips_decode_lock: bool
) -> EngineShape | None:
    given, version = given_flags(program, texts, *versions), versions.engine
    engine: ServingEngine = "vllm" if program.endswith("vllm") else "sglang"
    flags = ShapeFlags(engine, given)
    if given.hides_more or given.has(*_OBSCURING):
        return None
    tensor, pipeline = flags.count("tensor", 1), flags.count("pipeline", 1)
    data, context = flags.count("data", 1), flags.count("decode_context", 0)
    if tensor is None or pipeline is None or data is None or context is None:
        return None
    draft = _vllm_draft(given) if engine == "vllm" else _sglang_draft(flags)
    role = role_of(given.text("--disaggregation-mode"))
    return EngineShape(
        engine=engine,
        version=version,
        role=role,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        expert=_expert(flags, tensor * data),
        decode_context=context or None,
        kv_dtype=_KV_DTYPES.get(flags.text("kv_dtype") or ""),
        state_dtype=_state_dtype(flags),
        state_pool_ratio=_state_ratio(flags, version),
        gpu_memory_utilization=_utilization(flags, version),
        context_tokens=flags.length("context_tokens"),
        max_sequences=flags.count("max_num_seqs", 0) or None,
        states_per_sequence=_states(flags, draft, role, skips_decode_lock),
        draft=draft,
        block_size=flags.count("block_size", 0) or None,
        sized_by_hand=given.has(*_SIZED_BY_HAND),
    )


def role_of(mode: str | None) -> Role:
    """Read `--disaggregation-mode`."""
    roles: Mapping[str | None, Role] = {"prefill": "prefill", "decode": "decode"}
    return roles.get(mode, "aggregated")


def _expert(flags: ShapeFlags, ranks: int) -> int:
    if flags.engine == "vllm":
        return ranks if flags.given.has("--enable-expert-parallel") else 1
    return flags.count("expert", 1) or 1


def _state_dtype(flags: ShapeFlags) -> StateDtype | None:
    text = (flags.text("state_dtype") or "") if flags.is_given("state_dtype") else "auto"
    if text == "auto" and flags.given.has("--mamba-cache-dtype"):
        return None
    return _STATE_DTYPES.get(text)


def _utilization(flags: ShapeFlags, version: str | None) -> float | None:
    if flags.is_given("gpu_memory_utilization"):
        return flags.fraction("gpu_memory_utilization", most=1)
    known = version is not None and engine_version(version) >= _VLLM_UTILIZATION_SINCE
    return _VLLM_UTILIZATION if flags.engine == "vllm" and known else None


def _state_ratio(flags: ShapeFlags, version: str | None) -> float | None:
    if flags.engine == "vllm":
        return None
    if flags.is_given("state_pool_ratio"):
        return flags.fraction("state_pool_ratio", most=1000)
    known = version is not None and engine_version(version) < _SGLANG_STATE_RATIO_BEFORE
    return _SGLANG_STATE_RATIO if known else None


def _vllm_draft(given: GivenFlags) -> DraftChoice | None:
    uses = [use for use in given.uses if use.name.startswith(_VLLM_DRAFT_FLAGS)]
    if not uses:
        return None
    whole = given.find("--speculative-config")
    config = json_keys(whole.values[0].text) if whole and whole.values else None
    if config is None or any(use.key or use.name != "--speculative-config" for use in uses):
        return DraftChoice(None, None, None)
    method, source = config.get("method"), config.get("model")
    tokens = config.get("num_speculative_tokens")
    return DraftChoice(
        method if isinstance(method, str) else None,
        source if isinstance(source, str) else None,
        tokens if isinstance(tokens, int) else None,
    )


def _sglang_draft(flags: ShapeFlags) -> DraftChoice | None:
    if not flags.given.has("--speculative-algorithm"):
        return None
    method = flags.given.text("--speculative-algorithm")
    tokens = flags.count("draft_tokens", 0) or None
    return DraftChoice(method and method.lower(), flags.raw("draft"), tokens)


def _states(
    flags: ShapeFlags, draft: DraftChoice | None, role: Role, skips_decode_lock: bool
) -> int:
    """Count the states that one running request holds, at least.

    vLLM refuses to start with more sequences than states (vLLM issue 49064), and
    takes more than one per sequence only while it has them.
    """
    if flags.engine == "vllm":
        return 1
    if flags.given.has("--disable-radix-cache"):
        return 1
    kept = _SGLANG_STATES.get(flags.text("radix_strategy") or "", _SGLANG_LEAST_STATES)
    replays = flags.given.has("--enable-linear-replayssm-spec", "--enable-gdn-replayssm-spec")
    verified = 0
    if draft and draft.method == "dspark" and draft.tokens and not replays and role != "prefill":
        verified = draft.tokens + 1
    return kept - skips_decode_lock + verified
