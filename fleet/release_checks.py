"""Find what in a release does not go together: with its model, its engine, or itself.

Each rule is something that an engine refuses minutes or hours into a start, or that
it does not refuse and answers wrongly. Sources stand beside the rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.engine_flags import engine_version
from fleet.model import Model
from fleet.release import Parallelism, Release, Speculation, release_for
from fleet.schema import found_text, suggestion
from fleet.spec import Backend
from fleet.yaml_document import NodePath

Finding = tuple[NodePath, str, str]  # path in the release, what, fix

# vLLM pull request 52188 brought it; 0.28.0 stops with a ValueError (InferenceX 2914).
_VLLM_DRAFT_WITH_CONTEXT_SINCE = (0, 29)
_TRTLLM_BLOCK_SIZE = 64  # demanded by its MLA kernel (TensorRT-LLM's guide for K3)

_SPECULATION: NodePath = ("speculation",)
_POOLS: NodePath = ("disaggregation",)


def release_problems(model: Model, release: Release) -> list[Finding]:
    """List what makes a valid release one that this model cannot be served with."""
    return [
        *_image_problems(release),
        *_parallelism_problems(model, release),
        *_cache_problems(release),
        *_draft_problems(model, release),
        *_speculation_problems(release),
        *_disaggregation_problems(release),
    ]


def backend_problem(backend: Backend, release: Release) -> Finding | None:
    """Say why a workload backend cannot run a release's engine."""
    kind, path = release.engine.kind, ("engine", "kind")
    if backend == "dgd" and kind == "custom":
        what = "Dynamo's operator, backend dgd, knows no house engines"
        return path, what, "Write backend: lws in the fleet file"
    if backend == "lws" and kind == "trtllm":
        what = "TensorRT-LLM starts its ranks over MPI, which only Dynamo's operator sets up"
        return path, what, "Write backend: dgd in the fleet file"
    return None


def _image_problems(release: Release) -> Iterator[Finding]:
    if release.engine.image is None:
        what = f"there is no public image of {release.engine.kind} {release.engine.version} for it"
        fix = "Build one and name it: repository:tag@sha256:<64 hex digits>"
        yield ("engine", "image"), what, fix


def _parallelism_problems(model: Model, release: Release) -> Iterator[Finding]:
    for path, split in _splits(release):
        heads, experts = model.kda.heads, model.experts
        if heads % split.tensor:
            what = f"{split.tensor} ranks do not divide the {heads} heads of {model.name}"
            yield (*path, "tensor"), what, f"Use one of {_divisors(heads)}"
        if split.expert > 1 and (experts is None or experts % split.expert):
            what = f"{split.expert} ranks do not divide the {experts or 0} experts of {model.name}"
            yield (*path, "expert"), what, "Use a divisor of both"
        if release.engine.kind in ("vllm", "trtllm") and split.expert not in (1, split.tensor):
            what = f"{release.engine.kind} spreads experts over all {split.tensor} ranks or none"
            yield (*path, "expert"), what, f"Use 1 or {split.tensor}"


def _splits(release: Release) -> Iterator[tuple[NodePath, Parallelism]]:
    yield ("parallelism",), release.parallelism
    if pools := release.disaggregation:
        for name, pool in (("prefill", pools.prefill), ("decode", pools.decode)):
            if pool.parallelism:
                yield (*_POOLS, name, "parallelism"), pool.parallelism


def _cache_problems(release: Release) -> Iterator[Finding]:
    kind, interval = release.engine.kind, release.state_interval
    if kind == "trtllm" and release.kv_dtype != "bfloat16":
        # TensorRT-LLM's guide for K3, August 2026.
        what = "TensorRT-LLM keeps the cache of this model in bfloat16 only"
        yield ("kv_dtype",), what, "Write kv_dtype: bfloat16"
    if kind == "trtllm" and release.block_size != _TRTLLM_BLOCK_SIZE:
        what = f"TensorRT-LLM needs blocks of {_TRTLLM_BLOCK_SIZE} tokens"
        yield ("block_size",), what, f"Write block_size: {_TRTLLM_BLOCK_SIZE}"
    if kind == "sglang" and interval is not None and interval < release.block_size:
        # SGLang cookbook: the tracked interval is at least a page.
        what = f"SGLang keeps no states closer than a page of {release.block_size} tokens"
        fix = f"Give at least {release.block_size}, or leave it out for SGLang's default of 256"
        yield ("state_interval",), what, fix


def _draft_problems(model: Model, release: Release) -> Iterator[Finding]:
    speculation, kind = release.speculation, release.engine.kind
    if speculation is None or kind == "custom":
        return
    path = (*_SPECULATION, "draft")
    draft = model.drafts.get(speculation.draft)
    fitting = [name for name, other in model.drafts.items() if kind in other.engines]
    if draft is None:
        what = f"{found_text(speculation.draft)} is no draft of {model.name}"
        yield path, what, suggestion(speculation.draft, model.drafts)
    elif kind not in draft.engines:
        what = f"{speculation.draft} is made for {' and '.join(draft.engines)}, not for {kind}"
        yield path, what, f"Use {' or '.join(fitting)}" if fitting else "Remove speculation"
    elif draft.method != speculation.method:
        what = f"{speculation.draft} drafts by {draft.method}, not by {speculation.method}"
        yield (*_SPECULATION, "method"), what, f"Write method: {draft.method}"


def _speculation_problems(release: Release) -> Iterator[Finding]:
    speculation = release.speculation
    if speculation is None:
        return
    splits = [release_for(release, role).parallelism for role in dict.fromkeys(release.roles)]
    kind, version = release.engine.kind, release.engine.version
    data = max(split.attention_data for split in splits)
    if speculation.method == "dflash" and data > 1:
        # SGLang cookbook.
        what = f"DFlash does not work with {data} attention-data ranks"
        yield (*_SPECULATION, "method"), what, "Use dspark, or attention_data: 1"
    context = max(split.decode_context for split in splits)
    if kind == "vllm" and context > 1 and engine_version(version) < _VLLM_DRAFT_WITH_CONTEXT_SINCE:
        what = f"vLLM {version} cannot draft with decode_context {context}"
        yield _SPECULATION, what, "Use vLLM 0.29.0 or later, or decode_context: 1"
    if speculation.by_concurrency:
        yield from _schedule_problems(release, speculation)


def _schedule_problems(release: Release, speculation: Speculation) -> Iterator[Finding]:
    path = (*_SPECULATION, "by_concurrency")
    if release.engine.kind != "vllm":
        what = f"{release.engine.kind} drafts the same number of tokens under any load"
        yield path, what, "Remove it, or use vllm"
        return
    if release.parallelism.attention_data > 1:
        # vLLM's page on dynamic speculation: ranks would choose different numbers and hang.
        what = "vLLM ignores it with more than one attention-data rank"
        yield path, what, "Remove it, or use attention_data: 1"
    roles = dict.fromkeys(release.roles)
    largest = max(release_for(release, role).max_num_seqs for role in roles)
    last = speculation.by_concurrency[-1]
    if last.up_to < largest:
        # vLLM goes on with the last row, a reader might think of `tokens` or of none.
        what = f"its last row ends at {last.up_to} requests, but {largest} may run"
        yield path, what, f"Add a row with up_to: {largest}"


def _disaggregation_problems(release: Release) -> Iterator[Finding]:
    pools, kind = release.disaggregation, release.engine.kind
    if pools is None:
        return
    if kind == "trtllm":
        # Only DEP16 on both sides was published (TensorRT-LLM's examples/kimi_k3/disagg).
        what = "no configuration of TensorRT-LLM for this is known to give right answers"
        yield _POOLS, what, "Use vllm or sglang, or remove disaggregation"
    if kind == "vllm" and pools.transfer != "nixl":
        # A lost state still gives fluent text (ROCm/ATOM 2154), so nothing would show it.
        what = "vLLM is only known to send KDA states with nixl"
        yield (*_POOLS, "transfer"), what, "Write transfer: nixl"
    if kind == "vllm":
        yield from _unequal_pools(release)


def _unequal_pools(release: Release) -> Iterator[Finding]:
    """Compare how the roles split a request: vLLM sends rank by rank (InferenceX recipes)."""
    prefill = release_for(release, "prefill").parallelism
    decode = release_for(release, "decode").parallelism
    for name in ("tensor", "decode_context"):
        given, wanted = getattr(prefill, name), getattr(decode, name)
        if given != wanted:
            what = f"prefill has {name} {given} and decode {wanted}; vLLM sends rank by rank"
            yield _POOLS, what, f"Give both roles the same {name}"


def _divisors(number: int) -> str:
    return ", ".join(str(part) for part in range(1, number + 1) if number % part == 0)
