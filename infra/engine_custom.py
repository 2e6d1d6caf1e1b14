"""Fill in the command template of a house engine."""

from __future__ import annotations

from fleet.engine import CustomEngine
from infra.engine_job import LEADER, POD_IP, RANK, WEIGHTS_MOUNT, EngineJob, EngineRole


def custom_roles(job: EngineJob, engine: CustomEngine) -> tuple[EngineRole, EngineRole]:
    """Give the command of the leader and of the other nodes."""
    release = job.release
    values = {
        "weights": WEIGHTS_MOUNT,
        "model": job.model.repo,
        "nodes": release.nodes,
        "rank": RANK,
        "leader": LEADER,
        "tensor": release.parallelism.tensor,
        "host": POD_IP,
        "port": engine.port,
        "context_tokens": job.model.context_tokens,
    }
    leader = tuple(part.format_map(values) for part in engine.command)
    worker = tuple(part.format_map(values) for part in engine.worker_command or engine.command)
    return (
        EngineRole(serves=True, command=leader, args=release.args),
        EngineRole(serves=False, command=worker, args=release.args),
    )
