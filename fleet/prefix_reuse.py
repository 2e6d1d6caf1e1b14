"""Say how the real engines of a release reuse prefixes: what a cache oracle may promise of them.

K3's linear layers need a state to resume at, so real engines reuse up to a kept state, never up to
any block (vLLM blog of 2026-07-27).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fleet.hardware import Hardware
from fleet.memory import replica_memory
from fleet.model import Model
from fleet.release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixReuse:
    """Hold where a prompt can resume, what a kept state costs, and what a replica holds."""

    reuse: Literal["snapshots"] = "snapshots"
    snapshot_every: int
    """Tokens between kept states beside those at prompt ends; 0: prompt ends only."""
    snapshot_cost_blocks: int
    capacity_blocks: int


def prefix_reuse(model: Model, hardware: Hardware, release: Release) -> PrefixReuse | None:
    """Compute it for the replicas that compute prompts; None: a house engine does not say.

    In a shared pool (vLLM) a state takes the room of so many blocks; in a split pool (SGLang) it
    takes none of theirs, and how many states fit is not modelled.
    """
    if release.engine.custom is not None:
        return None
    memory = replica_memory(model, hardware, release, release.roles[0])
    block_bytes = memory.kv_bytes_per_token_per_gpu * release.block_size
    cost = -(-memory.state_bytes_per_gpu // block_bytes) if memory.shared_pool else 0
    interval = release.state_interval
    return PrefixReuse(
        # A state helps where a block ends too.
        snapshot_every=math.lcm(interval, release.block_size) if interval else 0,
        snapshot_cost_blocks=cost,
        capacity_blocks=memory.blocks,
    )
