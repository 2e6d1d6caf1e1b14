"""The mocked engine has the release's shape, scaled down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleet.load import load_fleet, load_release
from fleet.memory import replica_memory
from lab.engines import EngineShape, engine_shape, mocker_argv, write_speed_table

DEMO = Path(__file__).parents[2] / "fleets" / "demo.yaml"


@pytest.mark.parametrize("scale", [1, 4, 16])
def test_a_scaled_session_fills_the_same_share_of_the_cache(scale: int):
    """Else the rehearsal would see evictions that the rack does not have, or the reverse."""
    fleet = load_fleet(DEMO)
    memory = replica_memory(fleet.model, fleet.hardware, fleet.release)
    shape = engine_shape(fleet.model, fleet.hardware, fleet.release, "aggregated", scale)
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


def shapes(release: str, scale: int = 16) -> list[EngineShape]:
    """Give the mocked engines of a preset, in the order of its group."""
    fleet = load_fleet(DEMO)
    found = load_release(release, beside=DEMO)
    return [engine_shape(fleet.model, fleet.hardware, found, role, scale) for role in found.roles]


def test_each_job_has_its_own_limits():
    """The decode pool of the preset takes many requests, the prefill pools few."""
    assert [shape.max_num_seqs for shape in shapes("vllm-pd-2p1d")] == [8, 8, 256]


def test_a_scaled_cache_is_as_large_to_send_as_the_real_one():
    """A scaled token stands for many, and all of them have to reach the decode replica."""
    one, scaled = (shapes("vllm-pd-2p1d", scale)[0].kv_bytes_per_token for scale in (1, 16))
    assert scaled == 16 * one


def test_prefill_registers_where_frontends_look_for_it():
    """At the endpoint of the others it would be asked for whole answers."""
    endpoints = [shape.endpoint for shape in shapes("sglang-pd-1p2d")]
    assert endpoints == ["prefill.generate", "backend.generate", "backend.generate"]


@pytest.mark.parametrize(
    ("release", "modes"),
    [("vllm-tp8", [None]), ("vllm-pd-2p1d", ["prefill", "prefill", "decode"])],
)
def test_a_mocked_engine_does_one_job(release: str, modes: list[str | None]):
    """An engine that did both would make a split release look like an aggregated one."""
    found = []
    for shape in shapes(release):
        argv = mocker_argv(shape, python="python3", model_dir=DEMO, model_name="K3", tables=DEMO)
        flag = "--disaggregation-mode"
        found.append(argv[argv.index(flag) + 1] if flag in argv else None)
    assert found == modes
