"""Describe a model: its cache arithmetic, its weights and its API names.

Two kinds of cache, always: latent attention (MLA) keeps bytes per token, linear
attention (KDA) keeps one state per sequence boundary. Numbers and their sources
are in `fleet/models/*.yaml`, so a sister model needs a file and no code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from fleet.schema import Bytes, Count, DnsLabel, FileModel, Positive, Text

StateDtype = Literal["float32", "bfloat16"]
KvDtype = Literal["fp8", "bfloat16"]
EngineKind = Literal["vllm", "sglang", "trtllm", "custom"]

_STATE_ELEMENT_BYTES: Mapping[StateDtype, int] = {"float32": 4, "bfloat16": 2}
_KV_ELEMENT_BYTES: Mapping[KvDtype, int] = {"fp8": 1, "bfloat16": 2}
_CONV_ELEMENT_BYTES = 2  # bfloat16 in every engine
_CONV_STREAMS = 3  # query, key and value each pass the short convolution


class LatentAttention(FileModel):
    """The layers whose cache grows with the tokens."""

    layers: Positive
    elements_per_token: Positive  # per layer


class LinearAttention(FileModel):
    """The layers whose cache is one state of fixed size."""

    layers: Positive
    heads: Positive
    head_dim: Positive
    conv_taps: Count


class Draft(FileModel):
    """A small model that proposes tokens, made for one engine."""

    method: Literal["dspark", "dflash"]
    engines: tuple[EngineKind, ...]
    kv_elements_per_token: Count
    sharded: bool  # its cache, over tensor ranks; else every rank keeps all of it
    weights_bytes: Bytes  # the checkpoint; tensor ranks share it

    def kv_bytes_per_token(self, dtype: KvDtype, tensor: int) -> int:
        """Bytes of cache per token on one tensor rank; engines give it the model's dtype."""
        ranks = tensor if self.sharded else 1
        return -(-self.kv_elements_per_token * _KV_ELEMENT_BYTES[dtype] // ranks)


class Model(FileModel):
    """One model."""

    name: DnsLabel
    repo: Text
    model_type: Text
    context_tokens: Positive
    layers: Positive
    experts: Positive | None = None  # routed ones per layer; None: the model has none
    mla: LatentAttention
    kda: LinearAttention
    weights_bytes: Bytes  # the checkpoint, as stored
    weights_per_gpu: dict[int, Bytes]  # tensor-parallel size -> bytes of one rank
    runtime_reserve: dict[EngineKind, Bytes]  # per GPU: graphs, activations, workspaces
    vocab_size: Positive
    special_ids: dict[str, Count]
    reasoning_parser: Text
    tool_call_parser: Text
    drafts: dict[str, Draft] = Field(default_factory=dict)  # by repository

    @property
    def kv_elements_per_token(self) -> int:
        """Elements of MLA cache per token, over all layers."""
        return self.mla.layers * self.mla.elements_per_token

    @property
    def state_bytes_per_sequence(self) -> int:
        """Bytes of one KDA state in the engines' default precision."""
        return self.state_bytes("float32")

    def kv_bytes_per_token(self, dtype: KvDtype) -> int:
        """Bytes of MLA cache per token, over all layers, before any sharding."""
        return self.kv_elements_per_token * _KV_ELEMENT_BYTES[dtype]

    def state_bytes(self, dtype: StateDtype) -> int:
        """Bytes of one KDA state: a matrix per head and the taps of the convolution."""
        width = self.kda.heads * self.kda.head_dim
        matrix = width * self.kda.head_dim * _STATE_ELEMENT_BYTES[dtype]
        taps = self.kda.conv_taps * _CONV_STREAMS * width * _CONV_ELEMENT_BYTES
        return self.kda.layers * (matrix + taps)
