"""Claims about what the oracle is told of a release."""

from __future__ import annotations

from pathlib import Path

from fleet.load import load_fleet
from fleet.memory import replica_memory
from loadtest.cache.oracle import CacheOracle
from loadtest.cache.release_rules import release_rules

DEMO = load_fleet(Path(__file__).parents[2] / "fleets/demo.yaml")


def test_a_state_takes_the_room_of_its_bytes() -> None:
    """429 MiB of state against 13.8 KB a token: rounded up to whole blocks of the replica."""
    rules = release_rules(DEMO.model, DEMO.hardware, DEMO.release)
    memory = replica_memory(DEMO.model, DEMO.hardware, DEMO.release)
    block_bytes = memory.kv_bytes_per_token_per_gpu * DEMO.release.block_size
    spare = rules.snapshot_cost_blocks * block_bytes - memory.state_bytes_per_gpu
    assert 0 <= spare < block_bytes
    assert rules.capacity_blocks == memory.blocks


def test_the_oracle_takes_the_rules_of_a_release() -> None:
    """Sizes of presets fit each other."""
    rules = release_rules(DEMO.model, DEMO.hardware, DEMO.release)
    assert rules.reuse == "snapshots"
    CacheOracle(DEMO.release.block_size, rules)
