"""Prefill and decode in replicas of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ConfigError
from fleet.load import load_fleet
from fleet.packing import pack_rack
from fleet.plan import make_plan
from fleet.release import Disaggregation, Release, RolePool, release_for

WriteFile = Callable[..., Path]

SPLIT = {
    "name": "split",
    "engine": {"kind": "sglang", "image": "x@sha256:" + "b" * 64, "version": "0.5.18"},
    "dynamo": {"version": "1.6.1", "image": "dynamo@sha256:" + "c" * 64},
    "weights": {"revision": "abc"},
    "parallelism": {"tensor": 8, "decode_context": 8},
    "block_size": 64,
    "max_num_seqs": 64,
    "max_batched_tokens": 16384,
    "gpu_memory_utilization": 0.85,
}


def split(prefill: int, decode: int) -> Release:
    pools = Disaggregation(
        prefill=RolePool(replicas=prefill, max_num_seqs=8, env={"ROLE": "p"}),
        decode=RolePool(replicas=decode),
    )
    return Release.model_validate({**SPLIT, "disaggregation": pools.model_dump()})


@given(prefill=st.integers(1, 8), decode=st.integers(1, 8), replicas=st.integers(0, 18))
def test_every_whole_group_has_the_ratio(prefill: int, decode: int, replicas: int) -> None:
    """A rack that lost nodes keeps the ratio in all groups but the last."""
    roles = split(prefill, decode).roles
    slots = pack_rack("us-east", "r01", replicas, roles)
    group = prefill + decode
    for start in range(0, replicas - group + 1, group):
        jobs = [slot.role for slot in slots[start : start + group]]
        assert (jobs.count("prefill"), jobs.count("decode")) == (prefill, decode)


def test_a_job_sees_its_own_settings_over_the_shared_ones() -> None:
    """Prefill wants few long sequences, decode many short steps."""
    release = split(2, 1)
    prefill, decode = release_for(release, "prefill"), release_for(release, "decode")
    assert (prefill.max_num_seqs, decode.max_num_seqs) == (8, 64)
    assert (prefill.env, decode.env) == ({"ROLE": "p"}, {})


def fleet_file(write_file: WriteFile, prefill: int, decode: int, healthy: int = 18) -> Path:
    data = {**SPLIT, "disaggregation": {"prefill": {"replicas": prefill}, "decode": {}}}
    data["disaggregation"]["decode"] = {"replicas": decode}
    write_file(yaml.safe_dump(data), name="split.yaml")
    text = f"""\
apiVersion: k3fleet/v1
name: demo
release: ./split.yaml
regions: [{{name: us-east, racks: [{{id: use1-r01, healthy_nodes: {healthy}}}]}}]
"""
    return write_file(text)


@pytest.mark.parametrize(("prefill", "decode"), [(1, 1), (2, 2), (3, 1)])
def test_a_ratio_that_leaves_slots_over_is_refused(
    write_file: WriteFile, prefill: int, decode: int
) -> None:
    """Eight GPUs that belong to no group would serve nobody."""
    with pytest.raises(ConfigError, match=r"do not divide the 9 of a rack\. Choose a sum of 3 or"):
        load_fleet(fleet_file(write_file, prefill, decode))


def test_a_rack_that_lost_nodes_says_what_is_out_of_balance(write_file: WriteFile) -> None:
    """Whoever takes the rack back into service should know what limits it."""
    plan = make_plan(load_fleet(fleet_file(write_file, 2, 1, healthy=16)))
    assert plan.regions[0].with_role("prefill") == 6
    assert [text for text in plan.warnings if "2 over (prefill, prefill)" in text]


def test_a_region_knows_the_job_of_each_replica(write_file: WriteFile) -> None:
    """Whoever runs or judges a replica asks by its name."""
    path = write_file(change=("release: vllm-tp8-dcp8", "release: vllm-pd-2p1d"))
    [region] = make_plan(load_fleet(path)).regions
    jobs = [region.roles[f"use1-r01-{slot}"] for slot in range(4)]
    assert jobs == ["prefill", "prefill", "decode", "prefill"]
