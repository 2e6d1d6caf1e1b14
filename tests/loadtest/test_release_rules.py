"""Claims about what the oracle is told of a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.load import load_fleet, load_release
from fleet.memory import replica_memory
from loadtest.cache.oracle import CacheOracle
from loadtest.cache.release_rules import release_rules

PRESETS = sorted((Path(__file__).parents[2] / "fleet" / "releases").glob("*.yaml"))
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


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: str(path.stem))
def test_the_sizes_of_every_preset_fit_each_other(path: Path) -> None:
    """A generator in a cluster would else refuse its settings when it starts."""
    release = load_release(path.stem, beside=path.parent)
    rules = release_rules(DEMO.model, DEMO.hardware, release)
    assert rules.checked_unit(release.block_size) == release.block_size
    interval = release.state_interval
    assert (rules.snapshot_every > 0) == bool(interval)
    assert not interval or rules.snapshot_every % interval == 0
