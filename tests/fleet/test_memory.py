"""What a replica can cache, against published measurements."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import CapacityError
from fleet.load import PRESET_FOLDERS, load_fleet, load_release
from fleet.memory import (
    divide_memory,
    least_weights_bytes,
    memory_shape,
    replica_memory,
    role_memories,
)
from fleet.release import Release

GIB = 1024**3
MIB = 1024**2


FLEET = load_fleet(Path(__file__).parents[2] / "fleets/demo.yaml")
K3, GB300 = FLEET.model, FLEET.hardware
VLLM = load_release("vllm-tp8-dcp8", beside=PRESET_FOLDERS["release"])
SGLANG = load_release("sglang-tp8-dcp8", beside=PRESET_FOLDERS["release"])


def _with(release: Release, **changes: object) -> Release:
    return Release.model_validate({**release.model_dump(), **changes})


def test_kv_is_13824_bytes_a_token_in_fp8() -> None:
    """A cache library published 107,136 by counting all 93 layers; only 24 keep tokens."""
    assert K3.kv_bytes_per_token("fp8") == 13_824


def test_bfloat16_doubles_the_kv() -> None:
    """27,648 is the number in TensorRT-LLM pull request 19040."""
    assert K3.kv_bytes_per_token("bfloat16") == 27_648


def test_one_state_is_428_6_mib() -> None:
    """414.0 MiB of matrices and 14.6 MiB of convolution taps."""
    assert K3.state_bytes_per_sequence / MIB == pytest.approx(428.6, abs=0.05)


def test_a_bfloat16_state_is_221_6_mib() -> None:
    """Only the matrices halve, the taps are bfloat16 already."""
    assert K3.state_bytes("bfloat16") / MIB == pytest.approx(221.6, abs=0.05)


def test_a_rank_holds_an_eighth_of_the_state() -> None:
    """53.6 MiB at TP8: the state is sharded by tensor parallelism."""
    state = replica_memory(K3, GB300, VLLM).state_bytes_per_gpu
    assert state / MIB == pytest.approx(53.6, abs=0.05)


def test_plain_tp8_matches_the_measured_boot_log() -> None:
    """8 x B300 reported 3,249,215 tokens in 42.23 GiB; 1 % is the padding of its blocks."""
    plain = _with(VLLM, parallelism={"tensor": 8, "decode_context": 1})
    memory = replica_memory(K3, GB300, plain)
    assert memory.cache_bytes_per_gpu / GIB == pytest.approx(42.23, abs=0.05)
    assert memory.kv_tokens == pytest.approx(3_249_215, rel=0.015)


def test_dcp8_holds_26_million_tokens() -> None:
    """InferenceX quotes 7.5 times plain TP8; the arithmetic limit is 8."""
    assert replica_memory(K3, GB300, VLLM).kv_tokens == pytest.approx(26.2e6, rel=0.01)


def test_dcp_shards_tokens_and_not_states() -> None:
    """Counting both as sharded would promise eight times the sessions."""
    plain = replica_memory(K3, GB300, _with(VLLM, parallelism={"tensor": 8, "decode_context": 1}))
    sharded = replica_memory(K3, GB300, VLLM)
    assert sharded.kv_bytes_per_token_per_gpu * 8 == plain.kv_bytes_per_token_per_gpu
    assert sharded.state_bytes_per_gpu == plain.state_bytes_per_gpu


def test_short_sessions_are_limited_by_states() -> None:
    """A model with one pool would let a thousand-token session cost next to nothing."""
    memory = replica_memory(K3, GB300, VLLM)
    assert memory.sessions_at(1000) == pytest.approx(memory.state_snapshots, rel=0.05)


def test_a_split_pool_is_limited_by_the_scarcer_side() -> None:
    """SGLang divides the pool at start: long sessions run out of tokens, not of states."""
    memory = replica_memory(K3, GB300, SGLANG)
    assert memory.sessions_at(1000) == memory.state_snapshots
    assert memory.sessions_at(K3.context_tokens) == memory.kv_tokens // K3.context_tokens


def test_the_split_pool_follows_its_ratio() -> None:
    """`mamba-full-memory-ratio` is state bytes over KV bytes."""
    memory = replica_memory(K3, GB300, SGLANG)
    states = memory.state_snapshots * memory.state_bytes_per_gpu
    tokens = memory.kv_tokens * memory.kv_bytes_per_token_per_gpu
    assert states / tokens == pytest.approx(0.9, rel=0.01)


def test_a_larger_share_of_the_gpu_that_leaves_no_cache_is_refused() -> None:
    """At 0.7 the weights fit and nothing else does."""
    with pytest.raises(CapacityError, match="too little"):
        replica_memory(K3, GB300, _with(VLLM, gpu_memory_utilization=0.7))


def test_an_unmeasured_tensor_size_is_refused() -> None:
    """No number is better than an invented one."""
    wide = _with(VLLM, nodes=8, parallelism={"tensor": 32, "decode_context": 8})
    with pytest.raises(CapacityError, match="Use one of 4, 8, 16"):
        replica_memory(K3, GB300, wide)


def test_16_ranks_fit_smaller_gpus() -> None:
    """A GB200 rank has 185 GiB: too little for an eighth of the weights, enough for a 16th."""
    release = load_release("vllm-tp16-gb200", beside=PRESET_FOLDERS["release"])
    small = GB300.model_copy(update={"gpu_memory_mib": 189_471})
    assert replica_memory(K3, small, release).kv_tokens > K3.context_tokens
    narrow = _with(release, nodes=2, parallelism={"tensor": 8})
    with pytest.raises(CapacityError, match="too little"):
        replica_memory(K3, small, narrow)


def _drafting(release: Release, draft: str) -> Release:
    speculation = {"method": "dspark", "draft": draft, "revision": "main", "tokens": 7}
    return _with(release, speculation=speculation)


def test_a_draft_on_every_rank_costs_what_context_ranks_save() -> None:
    """Its 2,880 bytes a token are more than the 1,728 that DCP8 leaves of the model's own."""
    memory = replica_memory(K3, GB300, _drafting(VLLM, "Inferact/Kimi-K3-DSpark"))
    assert memory.kv_bytes_per_token_per_gpu == 1728 + 2880


def test_a_sharded_draft_costs_its_eighth() -> None:
    """10,240 elements of grouped-query attention are 1,280 bytes on each of 8 ranks in fp8."""
    plain = _with(SGLANG, parallelism={"tensor": 8})
    memory = replica_memory(K3, GB300, _drafting(plain, "RadixArk/Kimi-K3-DSpark"))
    assert memory.kv_bytes_per_token_per_gpu == 13_824 + 1280


def test_ranks_share_the_weights_of_a_draft() -> None:
    """Engines split a draft as they split the model."""
    plain = replica_memory(K3, GB300, VLLM).weights_per_gpu_bytes
    drafting = replica_memory(K3, GB300, _drafting(VLLM, "Inferact/Kimi-K3-DSpark"))
    assert drafting.weights_per_gpu_bytes - plain == 7_000_000_000 // 8


def test_experts_apart_weigh_the_same() -> None:
    """Expert parallelism moves weights between ranks, and no cache at all."""
    apart = _with(VLLM, parallelism={"tensor": 8, "expert": 8, "decode_context": 8})
    assert replica_memory(K3, GB300, apart) == replica_memory(K3, GB300, VLLM)


def test_less_memory_than_one_request_needs_is_refused() -> None:
    """An engine would start, promise a million tokens, and never be able to run them."""
    plain = _with(VLLM, parallelism={"tensor": 8}, gpu_memory_utilization=0.81)
    with pytest.raises(CapacityError) as caught:
        replica_memory(K3, GB300, plain)
    assert str(caught.value) == (
        "release vllm-tp8-dcp8: its memory holds 909,773 tokens, but one request of kimi-k3 may "
        "have 1,048,576. Raise gpu_memory_utilization, or shard tokens with a larger "
        "decode_context."
    )


def test_each_role_is_measured_by_its_own_settings() -> None:
    """SGLang may shard tokens over 8 ranks for decode only."""
    release = load_release("sglang-pd-2p1d", beside=PRESET_FOLDERS["release"])
    memories = role_memories(K3, GB300, release)
    assert {role: memory.kv_bytes_per_token_per_gpu for role, memory in memories.items()} == {
        "prefill": 13_824,
        "decode": 1728,
    }


def test_a_role_that_does_not_fit_is_named() -> None:
    """The shared values of a release may be right for one role only."""
    release = load_release("vllm-pd-2p1d", beside=PRESET_FOLDERS["release"])
    pools = release.disaggregation
    assert pools is not None
    decode = pools.decode.model_copy(update={"gpu_memory_utilization": 0.8})
    tight = pools.model_copy(update={"decode": decode})
    with pytest.raises(CapacityError, match="release vllm-pd-2p1d: decode: its memory"):
        role_memories(K3, GB300, release.model_copy(update={"disaggregation": tight}))


@given(st.integers(1, 2_000_000), st.integers(1, 2_000_000))
def test_longer_sessions_are_never_more(short: int, more: int) -> None:
    """Both engines, every length."""
    for release in (VLLM, SGLANG):
        memory = replica_memory(K3, GB300, release)
        assert memory.sessions_at(short) >= memory.sessions_at(short + more)


def test_the_longest_context_leaves_room_for_its_state() -> None:
    """In one pool a sequence of all tokens would have no place for what it remembers of them."""
    memory = replica_memory(K3, GB300, VLLM)
    assert memory.longest_context < memory.kv_tokens
    assert memory.sessions_at(memory.longest_context) == 1
    assert memory.sessions_at(memory.longest_context + 1) == 0


def test_a_split_pool_gives_all_its_tokens_to_one_sequence() -> None:
    """Its state has a place of its own."""
    memory = replica_memory(K3, GB300, SGLANG)
    assert memory.longest_context == memory.kv_tokens


def test_what_leaves_no_cache_holds_nothing() -> None:
    """Whoever reads a shape from elsewhere asks for numbers, not for an error."""
    shape = dataclasses.replace(memory_shape(K3, VLLM), gpu_memory_utilization=0.7)
    memory = divide_memory(K3, GB300, shape)
    assert memory.cache_bytes_per_gpu < 0
    assert (memory.kv_tokens, memory.state_snapshots, memory.longest_context) == (0, 0, 0)


def test_ranks_hold_their_average_at_least() -> None:
    """Nobody measured 32 ranks, but 1.56 TB must be somewhere."""
    assert least_weights_bytes(K3, 32) == 48_750_000_000
    assert least_weights_bytes(K3, 4) == 375_000_000_000
