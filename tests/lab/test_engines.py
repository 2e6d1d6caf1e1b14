"""The mocked engine has the release's shape, scaled down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleet.load import load_fleet
from fleet.memory import replica_memory
from lab.engines import engine_shape, write_speed_table

DEMO = Path(__file__).parents[2] / "fleets" / "demo.yaml"


@pytest.mark.parametrize("scale", [1, 4, 16])
def test_a_scaled_session_fills_the_same_share_of_the_cache(scale: int):
    """Else the rehearsal would see evictions that the rack does not have, or the reverse."""
    fleet = load_fleet(DEMO)
    memory = replica_memory(fleet.model, fleet.hardware, fleet.release)
    shape = engine_shape(fleet.release, memory, scale)
    held = shape.blocks * shape.block_size * scale
    assert held == pytest.approx(memory.kv_tokens, rel=1e-3)


def test_a_scaled_prompt_takes_as_long_as_the_real_one(tmp_path: Path):
    """Lengths are scaled, times are not: TTFT stays that of the real prompt."""
    tables = {}
    for scale in (1, 16):
        write_speed_table(tmp_path / "speed.npz", scale)
        tables[scale] = dict(np.load(tmp_path / "speed.npz"))
    real, scaled = tables[1], tables[16]
    real_ms = np.interp(16_384, real["prefill_isl"], real["prefill_ttft_ms"])
    scaled_ms = np.interp(1024, scaled["prefill_isl"], scaled["prefill_ttft_ms"])
    assert scaled_ms == pytest.approx(real_ms)
