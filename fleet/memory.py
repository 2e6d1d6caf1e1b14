"""Compute what one replica can cache.

Two-sided, because the two kinds of cache are sharded differently: MLA bytes per
token are repeated on every tensor-parallel rank unless decode-context
parallelism shards them; a KDA state is always sharded by tensor parallelism and
never by decode-context parallelism. Expert parallelism moves weights between
ranks and changes the bytes of none.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.errors import CapacityError
from fleet.hardware import Hardware
from fleet.model import EngineKind, KvDtype, Model, StateDtype
from fleet.release import Release, Role, release_for
from fleet.units import format_bytes

# What decides in a release whether there is room for a cache, and for enough tokens in it.
_ROOM = ("gpu_memory_utilization", "speculation", "parallelism.tensor")
_TOKENS = (
    "gpu_memory_utilization",
    "kv_dtype",
    "state_pool_ratio",
    "parallelism.decode_context",
    "speculation",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShape:
    """What decides how one GPU of a replica is divided, whoever says it.

    `tensor` is a size that the model file knows the weights of.
    """

    engine: EngineKind
    tensor: int
    decode_context: int = 1
    kv_dtype: KvDtype
    state_dtype: StateDtype
    state_pool_ratio: float | None
    gpu_memory_utilization: float
    draft: str | None = None  # as the model file names it
    block_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMemory:
    """The memory of one GPU of a replica, and what it holds.

    `kv_tokens` and `state_snapshots` are what the replica holds of each kind. In
    a shared pool (vLLM) either one alone would fill it; in a split pool (SGLang)
    both fit at once.
    """

    weights_per_gpu_bytes: int
    reserve_bytes: int
    cache_bytes_per_gpu: int
    kv_bytes_per_token_per_gpu: int
    state_bytes_per_gpu: int
    kv_tokens: int
    state_snapshots: int
    blocks: int
    shared_pool: bool

    @property
    def longest_context(self) -> int:
        """Tokens of the longest sequence that fits, alone and with its state."""
        if not self.shared_pool:
            return self.kv_tokens if self.state_snapshots > 0 else 0
        left = self.cache_bytes_per_gpu - self.state_bytes_per_gpu
        return max(0, left // self.kv_bytes_per_token_per_gpu)

    def sessions_at(self, context_tokens: int) -> int:
        """Count the sessions of one length that stay cached, with one state each."""
        if not self.shared_pool:
            return min(self.kv_tokens // context_tokens, self.state_snapshots)
        kv_bytes = context_tokens * self.kv_bytes_per_token_per_gpu
        return self.cache_bytes_per_gpu // (kv_bytes + self.state_bytes_per_gpu)


def role_memories(model: Model, hardware: Hardware, release: Release) -> dict[Role, ReplicaMemory]:
    """Give the memory of each job that the replicas of a release do."""
    roles = dict.fromkeys(release.roles)
    return {role: replica_memory(model, hardware, release, role) for role in roles}


def replica_memory(
    model: Model, hardware: Hardware, release: Release, role: Role = "aggregated"
) -> ReplicaMemory:
    """Divide a GPU into weights, reserve and cache; refuse what does not fit."""
    release = release_for(release, role)
    where = f"release {release.name}" if role == "aggregated" else f"release {release.name}: {role}"
    _check_gpus(where, hardware, release)
    _check_tensor(where, model, release.parallelism.tensor)
    shape = memory_shape(model, release)
    memory = divide_memory(model, hardware, shape)
    if memory.cache_bytes_per_gpu <= 0:
        raise CapacityError(_too_large(where, hardware, shape, memory), fields=_ROOM)
    _check_context(where, model, shape, memory.kv_tokens)
    return memory


def memory_shape(model: Model, release: Release) -> MemoryShape:
    """Take from a release, as one job sees it, what decides its memory."""
    draft = release.speculation.draft if release.speculation else None
    return MemoryShape(
        engine=release.engine.kind,
        tensor=release.parallelism.tensor,
        decode_context=release.parallelism.decode_context,
        kv_dtype=release.kv_dtype,
        state_dtype=release.state_dtype,
        state_pool_ratio=release.state_pool_ratio,
        gpu_memory_utilization=release.gpu_memory_utilization,
        draft=draft if draft in model.drafts else None,
        block_size=release.block_size,
    )


def divide_memory(model: Model, hardware: Hardware, shape: MemoryShape) -> ReplicaMemory:
    """Divide a GPU into weights, reserve and cache; no cache is left where it is not positive."""
    tensor = shape.tensor
    draft = model.drafts[shape.draft] if shape.draft else None
    weights = model.weights_per_gpu[tensor]
    if draft:
        weights += -(-draft.weights_bytes // tensor)
    reserve = model.runtime_reserve.get(shape.engine, 0)
    cache = _cache_bytes(hardware, shape, weights, reserve)
    kv_per_token = -(-model.kv_bytes_per_token(shape.kv_dtype) // shape.decode_context)
    if draft:
        kv_per_token += draft.kv_bytes_per_token(shape.kv_dtype, tensor)
    state = -(-model.state_bytes(shape.state_dtype) // tensor)
    kv_pool, state_pool = _split(max(0, cache), shape.state_pool_ratio)
    kv_tokens = kv_pool // kv_per_token
    return ReplicaMemory(
        weights_per_gpu_bytes=weights,
        reserve_bytes=reserve,
        cache_bytes_per_gpu=cache,
        kv_bytes_per_token_per_gpu=kv_per_token,
        state_bytes_per_gpu=state,
        kv_tokens=kv_tokens,
        state_snapshots=state_pool // state,
        blocks=kv_tokens // shape.block_size,
        shared_pool=shape.state_pool_ratio is None,
    )


def least_weights_bytes(model: Model, ranks: int) -> int:
    """Return what one of some ranks holds at least, however they split the model.

    Their average, which the fullest cannot be below: measured with tensor ranks where
    the model file has it, else from the size of the checkpoint.
    """
    return model.weights_per_gpu.get(ranks, -(-model.weights_bytes // ranks))


def _check_gpus(where: str, hardware: Hardware, release: Release) -> None:
    gpus = release.nodes * hardware.gpus_per_node
    if gpus != release.parallelism.tensor:
        raise CapacityError(
            f"{where}: tensor {release.parallelism.tensor} does not use the "
            f"{release.nodes} nodes x {hardware.gpus_per_node} GPUs = {gpus} GPUs of a replica. "
            f"Set tensor to {gpus}, or change nodes.",
            fields=("parallelism.tensor", "nodes"),
        )


def _check_tensor(where: str, model: Model, tensor: int) -> None:
    if tensor not in model.weights_per_gpu:
        known = ", ".join(str(size) for size in sorted(model.weights_per_gpu))
        raise CapacityError(
            f"{where}: no weight size of {model.name} is known for tensor {tensor}. "
            f"Use one of {known}, or add it to weights_per_gpu of the model file.",
            fields=("parallelism.tensor",),
        )


def _cache_bytes(hardware: Hardware, shape: MemoryShape, weights: int, reserve: int) -> int:
    """Return what is left for both caches.

    vLLM and SGLang put everything into their share of the GPU. TensorRT-LLM gives
    tokens a share of what the rest leaves free; that it keeps states beside it is
    not counted, which errs on the safe side.
    """
    share, total = shape.gpu_memory_utilization, hardware.gpu_memory_bytes
    if shape.engine == "trtllm":
        return int((total - weights - reserve) * share)
    return int(total * share) - weights - reserve


def _check_context(where: str, model: Model, shape: MemoryShape, kv_tokens: int) -> None:
    """Refuse a replica that could not hold one request of the length that it promises."""
    if kv_tokens >= model.context_tokens:
        return
    raise CapacityError(
        f"{where}: its memory holds {kv_tokens:,} tokens, but one request of {model.name} may have "
        f"{model.context_tokens:,}. {_more_tokens(shape)}.",
        fields=_TOKENS,
    )


def _more_tokens(shape: MemoryShape) -> str:
    """Say what would make room for tokens, as far as the engine can do it."""
    ways = ["Raise gpu_memory_utilization"]
    if shape.engine != "trtllm":
        if shape.kv_dtype != "fp8":
            ways.append("use kv_dtype fp8")
        ways.append("shard tokens with a larger decode_context")
    return ", or ".join(ways)


def _split(cache_bytes: int, ratio: float | None) -> tuple[int, int]:
    """Return the bytes that KV and states may use; the same bytes twice when shared."""
    if ratio is None:
        return cache_bytes, cache_bytes
    kv_pool = int(cache_bytes / (1 + ratio))
    return kv_pool, cache_bytes - kv_pool


def _too_large(where: str, hardware: Hardware, shape: MemoryShape, memory: ReplicaMemory) -> str:
    def gib(count: int) -> str:
        return format_bytes(count, binary=True)

    weights, reserve = memory.weights_per_gpu_bytes, memory.reserve_bytes
    fits_in_all = weights + reserve < hardware.gpu_memory_bytes
    raised = "Raise gpu_memory_utilization, or use" if fits_in_all else "Use"
    usable = int(hardware.gpu_memory_bytes * shape.gpu_memory_utilization)
    return (
        f"{where}: tensor {shape.tensor} puts {gib(weights)} of "
        f"weights on a GPU; {gib(hardware.gpu_memory_bytes)} x "
        f"{shape.gpu_memory_utilization} = {gib(usable)}, less {gib(reserve)} for the runtime, "
        f"is {gib(abs(usable - weights - reserve))} too little. "
        f"{raised} a larger tensor-parallel size on more nodes."
    )
