"""Describe a release: everything that decides what a replica answers.

Its id contains a hash of its content, so two replicas with the same id give the
same answers, and a changed comment does not cause a rollout.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fleet.engine import Engine
from fleet.model import KvDtype, StateDtype
from fleet.router import RouterSpec
from fleet.schema import (
    AtLeastASecond,
    Bytes,
    Count,
    DnsLabel,
    FileModel,
    Fraction,
    ImageRef,
    Positive,
    Ratio,
    Text,
    found_text,
    refuse,
)

ID_HASH_DIGITS = 8
NODES_PER_REPLICA = 2  # the public GB300 unit: 2 nodes x 4 GPUs, TP8 over NVLink

MAX_ROLE_REPLICAS = 72  # a group must fit into one rack, which has 72 GPUs
UINT32_MAX = 2**32 - 1  # what Envoy counts to
MAX_RETRIES = 100  # more would only be a storm

Role = Literal["aggregated", "prefill", "decode"]
Tokenizer = Literal["basetenkenizer", "fastokens"]


class Dynamo(FileModel):
    """The Dynamo release: frontends, router and the workers' shell around the engine."""

    version: Text
    image: ImageRef


class Weights(FileModel):
    """Which weights are loaded."""

    revision: Text


class Parallelism(FileModel):
    """How one replica splits the model over its GPUs."""

    tensor: Positive
    expert: Positive = 1
    attention_data: Positive = 1
    decode_context: Positive = 1

    @model_validator(mode="after")
    def _divides(self) -> Self:
        for name in ("expert", "attention_data", "decode_context"):
            size = getattr(self, name)
            if self.tensor % size:
                raise refuse(
                    f"{name} {size} does not divide tensor {self.tensor}",
                    "Use a divisor: these ranks are a split of the tensor ranks",
                )
        return self


class DraftStep(FileModel):
    """How many tokens are drafted while at most so many requests run."""

    up_to: Positive  # concurrent requests
    tokens: Count  # 0: no speculation


class Speculation(FileModel):
    """Speculative decoding with a draft model."""

    method: Literal["dspark", "dflash"]
    draft: Text  # a repository that the model file lists under `drafts`
    revision: Text
    tokens: Positive  # K: drafted per step, unless a row of `by_concurrency` says otherwise
    # Drafting helps few requests and harms many: rows by rising concurrency.
    by_concurrency: tuple[DraftStep, ...] = ()

    @model_validator(mode="after")
    def _rising(self) -> Self:
        limits = [step.up_to for step in self.by_concurrency]
        if limits != sorted(set(limits)):
            raise refuse(
                f"by_concurrency: {limits} does not rise", "Sort the rows by up_to, each once"
            )
        if any(step.tokens > self.tokens for step in self.by_concurrency):
            raise refuse(
                f"by_concurrency drafts more than tokens: {self.tokens}",
                "Set tokens to the largest number: engines reserve room for it",
            )
        return self


class RolePool(FileModel):
    """How many of a group's replicas do one of the two jobs, and what differs there."""

    replicas: Annotated[Positive, Field(le=MAX_ROLE_REPLICAS)]
    parallelism: Parallelism | None = None
    max_num_seqs: Positive | None = None
    max_batched_tokens: Positive | None = None
    gpu_memory_utilization: Fraction | None = None
    state_pool_ratio: Ratio | None = None
    args: tuple[str, ...] = ()  # added to the release's
    env: dict[str, str] = Field(default_factory=dict)


class Disaggregation(FileModel):
    """Prefill and decode in replicas of their own, in groups such as 2 prefill + 1 decode."""

    transfer: Literal["nixl", "mooncake"] = "nixl"
    prefill: RolePool
    decode: RolePool

    @property
    def group(self) -> int:
        """Replicas of one group."""
        return self.prefill.replicas + self.decode.replicas


class FrontendSettings(FileModel):
    """What the Dynamo frontends need to know of this release."""

    # With the default tokenizer of Dynamo 1.6.1 every K3 chat is an error.
    tokenizer: Tokenizer = "basetenkenizer"
    # Bytes of tokenised prefixes that a frontend keeps (InferenceX: 8 GiB for agents).
    tokenizer_cache_bytes: Count = 0


def _header_name(text: str) -> str:
    # A token of RFC 9110 without the underscore: the gateway refuses requests with one.
    if not re.fullmatch(r"[!#$%&'*+.^`|~0-9A-Za-z-]{1,128}", text):
        raise refuse(
            f"{found_text(text)} is no name of a header",
            "Use letters, digits and dashes, for example x-session-id",
        )
    return text


HeaderName = Annotated[str, AfterValidator(_header_name)]


class Edge(FileModel):
    """What the gateway promises to clients of this release."""

    session_header: HeaderName = "x-dynamo-session-id"
    # Envoy's 5 minutes are less than a prefill of a million tokens behind a queue, or than the
    # pause of a person who thinks.
    idle_timeout_s: AtLeastASecond = Field(default=900.0, alias="idle_timeout")
    retries: Annotated[Count, Field(le=MAX_RETRIES)] = 2
    # Larger requests are refused with 413. None: as large as they come.
    max_request_bytes: Annotated[Bytes, Field(ge=1, le=UINT32_MAX)] | None = None
    # Of each API key, at each gateway pod; more are refused with 429. None: no limit.
    requests_per_minute: Annotated[Positive, Field(le=UINT32_MAX)] | None = None


class Release(FileModel):
    """One immutable release.

    A field added here must have a default that means "as before": ids leave out
    what equals its default, so that a new k3fleet renames no release.
    """

    name: DnsLabel
    engine: Engine
    dynamo: Dynamo
    weights: Weights
    parallelism: Parallelism
    nodes: Positive = NODES_PER_REPLICA
    kv_dtype: KvDtype = "fp8"
    state_dtype: StateDtype = "float32"
    # SGLang splits its pool: state bytes = ratio x KV bytes. None: one shared pool (vLLM).
    state_pool_ratio: Ratio | None = None
    # Tokens between two kept KDA states, where a prefix can be resumed; 0: only at prompt ends.
    # None: the engine's default.
    state_interval: Count | None = None
    # Tokens per prefix hash: the router's block and the engine's match unit are the same.
    block_size: Positive
    max_num_seqs: Positive
    max_batched_tokens: Positive
    gpu_memory_utilization: Fraction
    # Say which blocks are cached; without it the KV router knows nothing.
    kv_events: bool = True
    speculation: Speculation | None = None
    disaggregation: Disaggregation | None = None  # None: each replica does both jobs
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    router: RouterSpec = RouterSpec()
    frontend: FrontendSettings = FrontendSettings()
    edge: Edge = Edge()
    # Longest time that a replica may finish its requests after it was told to stop.
    drain_s: AtLeastASecond = 900.0

    @property
    def roles(self) -> tuple[Role, ...]:
        """Jobs of the replicas of one group, in the order of their slots."""
        if self.disaggregation is None:
            return ("aggregated",)
        prefill: Role = "prefill"
        decode: Role = "decode"
        pools = self.disaggregation
        return (prefill,) * pools.prefill.replicas + (decode,) * pools.decode.replicas


def release_for(release: Release, role: Role) -> Release:
    """Give the release as one job sees it: the pool's own settings over the shared ones."""
    if release.disaggregation is None or role == "aggregated":
        return release
    pool = release.disaggregation.prefill if role == "prefill" else release.disaggregation.decode
    own = ("parallelism", "max_num_seqs", "max_batched_tokens", "gpu_memory_utilization")
    changes: dict[str, object] = {
        name: value
        for name in (*own, "state_pool_ratio")
        if (value := getattr(pool, name)) is not None
    }
    changes["args"] = (*release.args, *pool.args)
    changes["env"] = {**release.env, **pool.env}
    return release.model_copy(update=changes)


# Names of what was pushed last. Other names are taken as fixed: weights need not come from a hub.
_MOVING_REVISIONS = frozenset({"main", "master", "trunk", "head", "latest"})


def moves(revision: str) -> bool:
    """Say whether a revision is a name that its repository gives to other content later."""
    return revision.lower() in _MOVING_REVISIONS or revision.startswith("refs/")


def release_id(release: Release) -> str:
    """Name a release by its content: `<name>-<8 hex digits>`."""
    content = release.model_dump(mode="json", exclude_defaults=True)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return f"{release.name}-{digest[:ID_HASH_DIGITS]}"
