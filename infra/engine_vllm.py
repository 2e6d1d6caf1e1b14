"""Write the command line of vLLM, inside Dynamo's worker.

All nodes run the same command: the first one serves, the others are headless.
"""

from __future__ import annotations

import json

from fleet.engine_flags import engine_version
from fleet.own_settings import VLLM_RETENTION_FLAG_SINCE
from fleet.release import Release
from infra.engine_job import (
    DRAFT_MOUNT,
    LEADER,
    POD_IP,
    RANK,
    WEIGHTS_MOUNT,
    EngineJob,
    EngineRole,
    Flags,
    events_config,
    words,
)

_COMMAND = ("python3", "-m", "dynamo.vllm")

# Ports inside a pod, as in the public Dynamo recipes for K3.
_MASTER_PORT = 29500
_EVENTS_PORT = 20081

# Older versions have a variable instead, newer ones ignore that variable with a warning.
_RETENTION_VARIABLE = "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"

# Dynamo's GB300 recipe for K3 with DSpark: the drafted block is verified as a whole. The
# backend is the one whose draft half knows decode-context parallelism (vLLM pull request 52188).
_DSPARK = {
    "attention_backend": "TOKENSPEED_MLA",
    "draft_sample_method": "probabilistic",
    "rejection_sample_method": "block",
}


def vllm_roles(job: EngineJob) -> tuple[EngineRole, EngineRole]:
    """Give the command of the leader and of the other nodes."""
    args = (
        *words(_placed(job)),
        *_typed_words(job),
        *words(_parallel(job)),
        *words(_speculation(job.release)),
        *words({"--disaggregation-mode": job.role} if job.disaggregated else {}),
        *job.usual_words(_usual(job)),
        *job.release.args,
    )
    # A second API server would register a second model instance.
    second = () if job.placed_by_operator else ("--headless",)
    return (
        EngineRole(serves=True, command=_COMMAND, args=args),
        EngineRole(serves=False, command=_COMMAND, args=(*args, *second)),
    )


def vllm_env(release: Release) -> dict[str, str]:
    """Give the variables that say what no flag can."""
    env = {}
    if release.disaggregation:
        # How a KDA state lies in memory: without it NIXL cannot send it (Dynamo's K3 recipe).
        env["VLLM_SSM_CONV_STATE_LAYOUT"] = "DS"
        # Else Dynamo takes the first interface, which on a node with several is luck.
        env["VLLM_NIXL_SIDE_CHANNEL_HOST"] = POD_IP
    if release.state_interval is not None and not _has_retention_flag(release):
        env[_RETENTION_VARIABLE] = str(release.state_interval)
    return env


def _has_retention_flag(release: Release) -> bool:
    return engine_version(release.engine.version) >= VLLM_RETENTION_FLAG_SINCE


def _placed(job: EngineJob) -> Flags:
    model = job.model
    ranks = {
        "--nnodes": str(job.release.nodes),
        "--node-rank": RANK,
        "--master-addr": LEADER,
    }
    return {
        "--model": WEIGHTS_MOUNT,
        "--served-model-name": model.repo,
        **({} if job.placed_by_operator else ranks),
        "--dyn-reasoning-parser": model.reasoning_parser,
        "--dyn-tool-call-parser": model.tool_call_parser,
    }


def _typed_words(job: EngineJob) -> tuple[str, ...]:
    """Write the typed fields; vLLM counts tensor ranks within one attention-data rank."""
    split = job.release.parallelism
    interval = job.release.state_interval if _has_retention_flag(job.release) else None
    return job.typed_words(tensor=split.tensor // split.attention_data, state_interval=interval)


def _parallel(job: EngineJob) -> Flags:
    split = job.release.parallelism
    flags: dict[str, str | None] = {}
    if split.attention_data > 1:
        flags["--data-parallel-size"] = str(split.attention_data)
    if split.expert > 1:
        flags["--enable-expert-parallel"] = None
    return flags


def _speculation(release: Release) -> Flags:
    speculation = release.speculation
    if speculation is None:
        return {}
    config: dict[str, object] = {
        "method": speculation.method,
        "model": DRAFT_MOUNT,
        "num_speculative_tokens": speculation.tokens,
    }
    if rows := speculation.by_concurrency:
        # Ranges without gaps from 1 up, both ends included: [first, last, tokens].
        firsts = [1, *(row.up_to + 1 for row in rows)]
        config["num_speculative_tokens_per_batch_size"] = [
            [first, row.up_to, row.tokens] for first, row in zip(firsts, rows, strict=False)
        ]
    if speculation.method == "dspark":
        config |= _DSPARK
    return {"--speculative-config": json.dumps(config, separators=(",", ":"))}


def _usual(job: EngineJob) -> Flags:
    # Ray, the other choice, brings a second control plane into every replica.
    flags: dict[str, str | None] = {"--distributed-executor-backend": "mp"}
    if not job.placed_by_operator:
        flags["--master-port"] = str(_MASTER_PORT)
    if job.publishes_events:
        flags["--kv-events-config"] = events_config(_EVENTS_PORT, enable_kv_cache_events=True)
    if job.disaggregated:
        # Both ways in both roles, as Dynamo's K3 recipe has it.
        transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
        flags["--kv-transfer-config"] = json.dumps(transfer, separators=(",", ":"))
    return flags
