"""Say how the engines of a release reuse prefixes: what the oracle may promise of them.

K3's linear layers need a state to resume at, so real engines reuse up to a kept state, never up to
any block (vLLM blog of 2026-07-27). Mocked engines have no states: they reuse blocks.
"""

from __future__ import annotations

from fleet.hardware import Hardware
from fleet.memory import replica_memory
from fleet.model import Model
from fleet.release import Release
from loadtest.cache.oracle import OracleRules


def release_rules(model: Model, hardware: Hardware, release: Release) -> OracleRules:
    """Give the rules of a release's real engines, for the replicas that compute prompts.

    In a shared pool (vLLM) a state takes the room of so many blocks; in a split pool (SGLang) it
    takes none of theirs, and how many states fit is not modelled.
    """
    memory = replica_memory(model, hardware, release, release.roles[0])
    block_bytes = memory.kv_bytes_per_token_per_gpu * release.block_size
    cost = -(-memory.state_bytes_per_gpu // block_bytes) if memory.shared_pool else 0
    return OracleRules(
        reuse="snapshots",
        snapshot_every=release.state_interval or 0,
        snapshot_cost_blocks=cost,
        capacity_blocks=memory.blocks,
    )
