"""Write the command line of SGLang, inside Dynamo's worker.

All nodes run the same command, and each sees by its rank what it is.
"""

from __future__ import annotations

from fleet.engine_flags import engine_version
from fleet.release import Release, Speculation
from infra.engine_job import (
    DRAFT_MOUNT,
    LEADER,
    RANK,
    WEIGHTS_MOUNT,
    EngineJob,
    EngineRole,
    Flags,
    events_config,
    words,
)
from infra.options import ANY_ADDRESS

_COMMAND = ("python3", "-m", "dynamo.sglang")

# Ports inside a pod, as in the SGLang cookbook and the public Dynamo recipes for K3.
_INIT_PORT = 20000
_EVENTS_PORT = 5557
_BOOTSTRAP_PORT = 30001  # where a decode replica asks a prefill replica for its cache

_ATTENTION_DATA_FLAG_SINCE = (0, 5, 23)  # before: --dp-size and --enable-dp-attention


def sglang_roles(job: EngineJob) -> tuple[EngineRole, EngineRole]:
    """Give the command of the leader and of the other nodes."""
    args = (
        *words(_placed(job)),
        *job.typed_words(),
        *words(_parallel(job.release)),
        *words(_speculation(job)),
        *words(_disaggregation(job)),
        *job.usual_words(
            {"--kv-events-config": events_config(_EVENTS_PORT)} if job.publishes_events else {}
        ),
        *job.release.args,
    )
    return (
        EngineRole(serves=True, command=_COMMAND, args=args),
        EngineRole(serves=False, command=_COMMAND, args=args),
    )


def _placed(job: EngineJob) -> Flags:
    model = job.model
    ranks = {
        "--nnodes": str(job.release.nodes),
        "--node-rank": RANK,
        "--dist-init-addr": f"{LEADER}:{_INIT_PORT}",
    }
    return {
        "--model-path": WEIGHTS_MOUNT,
        "--served-model-name": model.repo,
        **({} if job.placed_by_operator else ranks),
        "--dyn-reasoning-parser": model.reasoning_parser,
        "--dyn-tool-call-parser": model.tool_call_parser,
    }


def _parallel(release: Release) -> Flags:
    split = release.parallelism
    flags: dict[str, str | None] = {}
    if split.expert > 1:
        flags["--ep-size"] = str(split.expert)
    if split.attention_data > 1:
        if engine_version(release.engine.version) >= _ATTENTION_DATA_FLAG_SINCE:
            flags["--attn-dp-size"] = str(split.attention_data)
        else:
            flags |= {"--dp-size": str(split.attention_data), "--enable-dp-attention": None}
        if release.speculation:
            # The draft needs whole logits on each attention-data rank (SGLang cookbook).
            flags["--enable-dp-lm-head"] = None
    return flags


def _speculation(job: EngineJob) -> Flags:
    speculation = job.release.speculation
    if speculation is None:
        return {}
    flags: dict[str, str | None] = {
        "--speculative-algorithm": speculation.method.upper(),
        "--speculative-draft-model-path": DRAFT_MOUNT,
        _block_size_flag(speculation): str(speculation.tokens),
    }
    if speculation.method == "dspark" and job.role != "prefill":
        # Keeps inputs instead of a state per drafted token (SGLang cookbook, not for prefill).
        flags["--enable-linear-replayssm-spec"] = None
    return flags


def _block_size_flag(speculation: Speculation) -> str:
    return f"--speculative-{speculation.method}-block-size"


def _disaggregation(job: EngineJob) -> Flags:
    pools = job.release.disaggregation
    if pools is None or not job.disaggregated:
        return {}
    return {
        "--disaggregation-mode": job.role,
        "--disaggregation-transfer-backend": pools.transfer,
        "--disaggregation-bootstrap-port": str(_BOOTSTRAP_PORT),
        # The bootstrap server listens there; by default only for its own pod.
        "--host": ANY_ADDRESS,
    }
