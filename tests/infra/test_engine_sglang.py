"""What is SGLang's own in the command line of an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.load import load_model, load_release
from fleet.release import Release, Role, release_for
from infra.engine import EngineRole, engine_roles

K3 = load_model("kimi-k3", beside=Path())
PLAIN = load_release("sglang-tp8-dcp8", beside=Path())
APART = load_release("sglang-pd-2p1d-dspark", beside=Path())


def changed(release: Release, **changes: Any) -> Release:
    return Release.model_validate({**release.model_dump(), **changes})


def leader(release: Release, role: Role = "aggregated") -> EngineRole:
    return engine_roles(K3, release_for(release, role), role)[0]


def value_of(role: EngineRole, flag: str) -> str:
    return role.args[role.args.index(flag) + 1]


def test_sglang_gets_its_own_spelling_of_fp8() -> None:
    """`fp8` alone is refused by SGLang at start, hours after the plan looked fine."""
    assert value_of(leader(PLAIN), "--kv-cache-dtype") == "fp8_e4m3"


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_roles_meet_at_the_bootstrap_server(role: Role) -> None:
    """It listens at --host, whose default nobody outside the pod can reach."""
    given = leader(APART, role)
    assert value_of(given, "--disaggregation-mode") == role
    assert value_of(given, "--disaggregation-transfer-backend") == "mooncake"
    assert value_of(given, "--disaggregation-bootstrap-port") == "30001"
    assert value_of(given, "--host") == "0.0.0.0"  # noqa: S104 - what is claimed


def test_an_aggregated_replica_listens_to_its_own_pod_only() -> None:
    """Requests come by Dynamo; SGLang's own API has no business on the network."""
    assert "--host" not in leader(PLAIN).args


@pytest.mark.parametrize(("role", "replays"), [("prefill", False), ("decode", True)])
def test_only_who_decodes_replays_states(role: Role, replays: bool) -> None:
    """The cookbook leaves ReplaySSM out of the prefill role; the draft itself is in both."""
    given = leader(APART, role)
    assert value_of(given, "--speculative-algorithm") == "DSPARK"
    assert value_of(given, "--speculative-draft-model-path") == "/draft"
    assert value_of(given, "--speculative-dspark-block-size") == "7"
    assert ("--enable-linear-replayssm-spec" in given.args) is replays


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("0.5.21", ("--dp-size", "2", "--enable-dp-attention")),
        ("0.5.23", ("--attn-dp-size", "2")),
    ],
)
def test_attention_data_is_called_by_the_versions_name(
    version: str, flags: tuple[str, ...]
) -> None:
    """From 0.5.23 --dp-size means whole replicas of the model."""
    engine = {**PLAIN.engine.model_dump(), "version": version}
    split = {"tensor": 8, "attention_data": 2}
    args = leader(changed(PLAIN, engine=engine, parallelism=split)).args
    start = args.index(flags[0])
    assert args[start : start + len(flags)] == flags


def test_experts_are_counted() -> None:
    """Unlike vLLM, SGLang may spread experts over a part of the ranks."""
    role = leader(changed(PLAIN, parallelism={"tensor": 8, "expert": 4}))
    assert value_of(role, "--ep-size") == "4"
