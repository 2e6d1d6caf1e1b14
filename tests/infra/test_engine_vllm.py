"""What is vLLM's own in the command line and environment of an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.load import load_model, load_release
from fleet.release import Release, Role, release_for
from infra.engine import EngineRole, engine_env, engine_roles

K3 = load_model("kimi-k3", beside=Path())
PLAIN = load_release("vllm-tp8", beside=Path())
DRAFTING = load_release("vllm-tp8-dspark", beside=Path())
APART = load_release("vllm-pd-2p1d", beside=Path())


def changed(release: Release, **changes: Any) -> Release:
    return Release.model_validate({**release.model_dump(), **changes})


def leader(release: Release, role: Role = "aggregated") -> EngineRole:
    return engine_roles(K3, release_for(release, role), role)[0]


def value_of(role: EngineRole, flag: str) -> str:
    return role.args[role.args.index(flag) + 1]


def test_only_the_other_nodes_are_headless() -> None:
    """A second API server would register a second model instance."""
    roles = engine_roles(K3, PLAIN)
    assert [role.args[-1] == "--headless" for role in roles] == [False, True]


def test_the_draft_is_read_from_the_node() -> None:
    """The public recipe downloads it at every start, with the hub as a part of serving."""
    config = json.loads(value_of(leader(DRAFTING), "--speculative-config"))
    assert config == {
        "method": "dspark",
        "model": "/draft",
        "num_speculative_tokens": 7,
        "attention_backend": "TOKENSPEED_MLA",
        "draft_sample_method": "probabilistic",
        "rejection_sample_method": "block",
    }


def test_a_schedule_becomes_ranges_of_requests() -> None:
    """vLLM wants [first, last, tokens], both included, from 1 on and without gaps."""
    rows = [{"up_to": 8, "tokens": 7}, {"up_to": 16, "tokens": 3}, {"up_to": 256, "tokens": 0}]
    speculation = {**DRAFTING.model_dump()["speculation"], "by_concurrency": rows}
    role = leader(changed(DRAFTING, speculation=speculation))
    config = json.loads(value_of(role, "--speculative-config"))
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 8, 7], [9, 16, 3], [17, 256, 0]]


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=9, unique=True))
def test_a_schedule_covers_every_number_of_requests_once(limits: list[int]) -> None:
    """vLLM refuses overlaps, and fills a gap with the row before it."""
    rows = [{"up_to": limit, "tokens": 1} for limit in sorted(limits)]
    speculation = {**DRAFTING.model_dump()["speculation"], "by_concurrency": rows}
    role = leader(changed(DRAFTING, speculation=speculation))
    config = json.loads(value_of(role, "--speculative-config"))
    ranges = config["num_speculative_tokens_per_batch_size"]
    covered = [count for first, last, _ in ranges for count in range(first, last + 1)]
    assert covered == list(range(1, max(limits) + 1))


def test_both_roles_can_send_states() -> None:
    """Without this layout NIXL moves the tokens and loses the KDA states."""
    envs = [engine_env(release_for(APART, role), "demo") for role in APART.roles]
    assert {env["VLLM_SSM_CONV_STATE_LAYOUT"] for env in envs} == {"DS"}
    assert "VLLM_SSM_CONV_STATE_LAYOUT" not in engine_env(PLAIN, "demo")


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_role_is_said_in_dynamos_and_in_vllms_words(role: Role) -> None:
    """Dynamo routes by its own mode, and refuses prefill without a transfer config."""
    given_role = leader(APART, role)
    assert value_of(given_role, "--disaggregation-mode") == role
    transfer = json.loads(value_of(given_role, "--kv-transfer-config"))
    assert transfer == {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def test_a_transfer_of_the_release_replaces_ours() -> None:
    """A host-memory tier beside NIXL is one config for both."""
    own = '--kv-transfer-config={"kv_connector":"MultiConnector","kv_role":"kv_both"}'
    role = leader(changed(APART, args=[own]), "decode")
    assert own in role.args
    assert "--kv-transfer-config" not in role.args


@pytest.mark.parametrize(("version", "as_flag"), [("0.28.0", False), ("0.29.0", True)])
def test_the_state_interval_reaches_every_version(version: str, as_flag: bool) -> None:
    """0.28 knows no flag and ends; 0.30 ignores the variable with a warning."""
    engine = {**PLAIN.engine.model_dump(), "version": version}
    release = changed(PLAIN, engine=engine)
    assert ("--prefix-cache-retention-interval" in leader(release).args) is as_flag
    env = engine_env(release, "demo")
    assert ("VLLM_PREFIX_CACHE_RETENTION_INTERVAL" in env) is not as_flag


def test_tensor_ranks_are_counted_within_a_data_rank() -> None:
    """16 GPUs as 4 x 4: vLLM multiplies the two numbers, a release names the product."""
    split = {"tensor": 16, "attention_data": 4, "expert": 16}
    role = leader(changed(PLAIN, nodes=4, parallelism=split))
    assert value_of(role, "--tensor-parallel-size") == "4"
    assert value_of(role, "--data-parallel-size") == "4"
    assert "--enable-expert-parallel" in role.args
