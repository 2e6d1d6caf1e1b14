"""Rules about memory: do the weights, the context and the sequences fit.

Two separate limits, always: KV of the latent attention caps tokens, the pool of
KDA states caps sequences. All arithmetic is that of `fleet/memory.py`, so a
manifest and a release of the same shape are judged alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from fleet.engine_flags import engine_version
from fleet.memory import ReplicaMemory, divide_memory
from fleet.plan import TYPICAL_CONTEXT_TOKENS
from infra.lint.engine_memory import JudgedEngine, gib, judged_engines, once
from infra.lint.rule import Rule, Spot
from infra.lint.scene import Scene

# `vllm serve` on GPUs of this size, without the flag (vLLM issue 49064).
_VLLM_SEQUENCES = 1024
# Above what anybody ran for long: 0.92 (InferenceX pull request 2380; vLLM's K3 recipe).
_VLLM_RISKY_UTILIZATION = 0.95
# vLLM pull request 52188: a draft with decode-context parallelism; before, a ValueError.
_VLLM_DRAFT_WITH_CONTEXT_SINCE = (0, 29)


def _weights(scene: Scene) -> Iterator[Spot]:
    for engine in judged_engines(scene):
        if engine.fits:
            continue
        ranks = engine.shape.ranks
        puts = f"{ranks} rank{'s put' if ranks > 1 else ' puts'} {gib(engine.weights_bytes)}"
        what = f"{puts} of weights on each GPU, which has {engine.size}"
        yield engine.spot("tensor", what, _larger_split(engine))


def _larger_split(engine: JudgedEngine) -> str | None:
    """Name the smallest tensor-parallel size that fits, if one is known."""
    reserve = engine.model.runtime_reserve.get(engine.shape.engine, 0)
    for tensor, weights in sorted(engine.model.weights_per_gpu.items()):
        if weights + reserve < engine.usable_bytes:
            nodes = -(-tensor // engine.hardware.gpus_per_node)
            return f"Use {engine.flag('tensor')} {tensor} on {nodes} nodes"
    return None


def _context(scene: Scene) -> Iterator[Spot]:
    for engine in judged_engines(scene):
        wanted = _wanted_context(engine)
        memory = engine.memory
        if memory is None or wanted is None or not engine.fits:
            continue
        longest = memory.longest_context
        if wanted <= longest:
            continue
        what = f"a context of {wanted:,} tokens does not fit: {engine.room} holds {longest:,}"
        yield engine.spot("context_tokens", what, _more_room(engine, longest))


def _wanted_context(engine: JudgedEngine) -> int | None:
    """Return the context that the engine promises; None: as much as fits."""
    stated = engine.shape.context_tokens
    if stated == "auto":
        return None
    if stated is None:  # vLLM refuses to start, SGLang refuses only longer requests
        return engine.model.context_tokens if engine.shape.engine == "vllm" else None
    return stated


def _more_room(engine: JudgedEngine, longest: int) -> str:
    ways = [f"Set {engine.flag('context_tokens')} to {longest} or less"] if longest else []
    if engine.shape.kv_dtype != "fp8" and engine.shape.engine != "trtllm":
        fp8 = "fp8" if engine.shape.engine == "vllm" else "fp8_e4m3"
        ways.append(f"use {engine.flag('kv_dtype')} {fp8}")
    if (engine.shape.decode_context or 1) < engine.shape.tensor and _can_shard_tokens(engine):
        ways.append(f"shard tokens with {engine.flag('decode_context')} {engine.shape.tensor}")
    ways.append(f"raise {engine.flag('gpu_memory_utilization')}")
    text = ", or ".join(ways)
    return text[0].upper() + text[1:]


def _sequences(scene: Scene) -> Iterator[Spot]:
    for engine in judged_engines(scene):
        wanted = _wanted_sequences(engine)
        if wanted is None or engine.memory is None or engine.memory.longest_context == 0:
            continue
        if engine.shape.engine == "trtllm":  # how many states it keeps beside is not known
            continue
        states, each = engine.memory.state_snapshots, engine.shape.states_per_sequence
        if wanted <= states // each:
            continue
        need = "1 for each sequence" if each == 1 else f"at least {each} for each sequence"
        what = f"{wanted} sequences, but the GPUs hold {states} KDA states, {need}"
        fix = f"Set {engine.flag('max_num_seqs')} to {states // each} or less"
        yield engine.spot("max_num_seqs", what, fix)


def _wanted_sequences(engine: JudgedEngine) -> int | None:
    if engine.shape.max_sequences is None and engine.command.program == "vllm":
        return (
            _VLLM_SEQUENCES if engine.command.value(engine.flag("max_num_seqs")) is None else None
        )
    return engine.shape.max_sequences


def _capacity(scene: Scene) -> Iterator[Spot]:
    for engine, others in once(item for item in judged_engines(scene) if item.memory and item.fits):
        memory = engine.memory
        if memory is None or memory.longest_context == 0:  # M002 says so
            continue
        yield engine.spot("tensor", _capacity_text(engine, memory) + others)


def _capacity_text(engine: JudgedEngine, memory: ReplicaMemory) -> str:
    longest = min(memory.longest_context, engine.model.context_tokens)
    tokens = f"{engine.shape.tensor} ranks hold {_millions(memory.kv_tokens)} tokens of KV"
    if engine.shape.engine == "trtllm":  # it keeps states beside them, nobody knows how many
        return f"{tokens}: a context of up to {longest:,} tokens"
    joint = "or" if memory.shared_pool else "and"
    sequences = memory.state_snapshots // engine.shape.states_per_sequence
    return (
        f"{tokens} {joint} {memory.state_snapshots:,} KDA states: a context of up to {longest:,} "
        f"tokens, {sequences:,} sequences at most, "
        f"{memory.sessions_at(TYPICAL_CONTEXT_TOKENS):,} of {TYPICAL_CONTEXT_TOKENS:,} tokens"
    )


def _replicated(scene: Scene) -> Iterator[Spot]:
    for engine, others in once(filter(_repeats_tokens, judged_engines(scene))):
        memory, shape, tensor = engine.memory, engine.memory_shape, engine.shape.tensor
        if memory is None or shape is None:
            continue
        wide = dataclasses.replace(shape, decode_context=tensor)
        sharded = divide_memory(engine.model, engine.hardware, wide)
        flag = f"{engine.flag('decode_context')} {tensor}"
        what = (
            f"each of {tensor} ranks keeps the KV of all tokens: {_millions(memory.kv_tokens)} "
            f"fit, with {flag} it would be {_millions(sharded.kv_tokens)}{others}"
        )
        yield engine.spot("tensor", what, _shard_tokens(engine))


def _repeats_tokens(engine: JudgedEngine) -> bool:
    """Say whether decode-context parallelism was left out, where somebody is known to use it.

    Where it is given, even as 1, somebody has decided.
    """
    if engine.memory is None or engine.memory.longest_context == 0 or engine.shape.tensor == 1:
        return False
    if engine.shape.engine == "sglang" and engine.shape.role == "prefill":
        return False  # no public configuration has it
    return engine.shape.decode_context is None and _can_shard_tokens(engine)


def _shard_tokens(engine: JudgedEngine) -> str:
    """Say how; what vLLM needs beside it is from InferenceX's GB300 recipes."""
    text = f"Add {engine.flag('decode_context')} {engine.shape.tensor}"
    if engine.shape.engine == "vllm":
        text += ", --dcp-comm-backend a2a and --attention-backend TOKENSPEED_MLA"
        if engine.shape.role != "aggregated":
            text += ", for prefill and decode alike,"
    return f"{text} where long contexts or many sessions matter more than latency"


def _can_shard_tokens(engine: JudgedEngine) -> bool:
    """Say whether decode-context parallelism works with what else is asked for."""
    if engine.shape.engine == "trtllm":  # nobody is known to use it there
        return False
    if engine.shape.engine == "sglang" or engine.shape.draft is None:
        return True
    version = engine.shape.version
    return version is not None and engine_version(version) >= _VLLM_DRAFT_WITH_CONTEXT_SINCE


def _utilization(scene: Scene) -> Iterator[Spot]:
    for engine in judged_engines(scene):
        share = engine.shape.gpu_memory_utilization
        if engine.shape.engine != "vllm" or share is None or share < _VLLM_RISKY_UTILIZATION:
            continue
        left = gib(engine.hardware.gpu_memory_bytes - engine.usable_bytes)
        what = f"{engine.flag('gpu_memory_utilization')} {share:g} leaves {left} of a GPU"
        yield engine.spot("gpu_memory_utilization", what)


def _millions(count: int) -> str:
    """Write a number of tokens, not more exactly than it is known."""
    return f"{count / 1e6:.1f} M"


RULES: tuple[Rule, ...] = (
    Rule(
        id="M001",
        severity="error",
        title="The weights fit on the GPUs that share them",
        reason="Each rank loads its part of 1.5 TB; one that is larger than its GPU ends the "
        "start minutes into the load.",
        source="InferenceX pull requests 2371 and 2508: 375 to 390 GB on each of 4 GPUs",
        fix="Spread the model over more GPUs: a larger tensor-parallel size on more nodes",
        check=_weights,
    ),
    Rule(
        id="M002",
        severity="error",
        title="One sequence of the longest allowed context fits",
        reason="vLLM refuses to start when the KV of one such sequence does not fit beside "
        "weights, graphs and draft; SGLang starts and refuses the request.",
        source="vllm/v1/core/kv_cache_utils.py, 'To serve at least one request'; sizes: "
        "InferenceX pull request 2371",
        fix="Lower the context, or make room for tokens",
        check=_context,
    ),
    Rule(
        id="M003",
        severity="warning",
        title="The KDA states of all sequences fit",
        reason="A running sequence needs a state of its own, which decode-context parallelism "
        "does not shard: vLLM then refuses to start, SGLang runs fewer than asked.",
        source="vllm#49064 ('max_num_seqs exceeds available Mamba cache blocks'); sglang#33004",
        fix="Lower the number of sequences",
        check=_sequences,
    ),
    Rule(
        id="M004",
        severity="info",
        title="What fits, by the same arithmetic as a release",
        reason="Tokens of KV and KDA states are two separate limits, and an engine tells them "
        "only after it has loaded 1.5 TB.",
        source="aiconfigurator 0.12.0 (weights), InferenceX pull request 2371 (a boot log)",
        fix="Compare it with what the engine logs at start",
        check=_capacity,
    ),
    Rule(
        id="M005",
        severity="info",
        title="Tokens are sharded over ranks where capacity matters",
        reason="Latent attention has one KV head, so that plain tensor parallelism keeps the "
        "same KV on every rank; that is faster for few sequences, and holds an eighth.",
        source="vLLM's K3 recipe and InferenceX: DCP8 gives about 7.5 times the tokens",
        fix="Add decode-context parallelism",
        check=_replicated,
    ),
    Rule(
        id="M006",
        severity="warning",
        title="vLLM leaves room beside its share of the GPU",
        reason="At 0.95 the 1.6 GiB workspace of the MoE kernels did not fit, and an engine with "
        "32 sequences died after 13 to 16 minutes.",
        source="InferenceX pull request 2380; vLLM's K3 recipe",
        fix="Use 0.92 or less, and load it for 20 minutes before you trust more",
        check=_utilization,
    ),
)
