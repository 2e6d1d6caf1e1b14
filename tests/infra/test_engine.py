"""The command line and environment of an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import Fleet, load_release
from fleet.own_settings import own_variables
from fleet.release import Release, release_for
from infra.engine import EngineRole, engine_env, engine_roles

PRESETS = ("vllm-tp8-dcp8", "sglang-tp8-dcp8")


def release(name: str, **changes: object) -> Release:
    return load_release(name, beside=Path()).model_copy(update=changes)


def value_of(role: EngineRole, flag: str) -> str:
    return role.args[role.args.index(flag) + 1]


def flags(role: EngineRole) -> list[str]:
    return [word.partition("=")[0] for word in role.args if word.startswith("--")]


@pytest.mark.parametrize("preset", PRESETS)
def test_both_ranks_take_their_rank_from_the_controller(demo: Fleet, preset: str) -> None:
    """One command for both pods cannot drift apart; only Kubernetes knows who is who."""
    for role in engine_roles(demo.model, release(preset)):
        assert value_of(role, "--node-rank") == "$(LWS_WORKER_INDEX)"


@pytest.mark.parametrize(
    ("preset", "flag", "address"),
    [
        ("vllm-tp8-dcp8", "--master-addr", "$(LWS_LEADER_ADDRESS)"),
        ("sglang-tp8-dcp8", "--dist-init-addr", "$(LWS_LEADER_ADDRESS):20000"),
    ],
)
def test_ranks_meet_at_the_leader(demo: Fleet, preset: str, flag: str, address: str) -> None:
    """Each engine has its own word for the meeting point."""
    assert value_of(engine_roles(demo.model, release(preset))[1], flag) == address


@pytest.mark.parametrize("preset", PRESETS)
def test_no_flag_is_given_twice(demo: Fleet, preset: str) -> None:
    """Of two values an engine silently takes the last, and the release id shows neither."""
    words = flags(engine_roles(demo.model, release(preset))[0])
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize("preset", PRESETS)
def test_the_engine_serves_under_the_models_own_name(demo: Fleet, preset: str) -> None:
    """The gateway looks for this name in /v1/models."""
    role = engine_roles(demo.model, release(preset))[0]
    assert value_of(role, "--served-model-name") == "moonshotai/Kimi-K3"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_release_says_by_itself_what_it_caches(demo: Fleet, preset: str) -> None:
    """Without events the KV router is blind and routing becomes a lottery."""
    role = engine_roles(demo.model, release(preset, args=()))[0]
    assert json.loads(value_of(role, "--kv-events-config"))["publisher"] == "zmq"


@pytest.mark.parametrize("preset", PRESETS)
def test_events_can_be_switched_off(demo: Fleet, preset: str) -> None:
    """They cost processor time, which is wasted where nothing routes by cache."""
    role = engine_roles(demo.model, release(preset, kv_events=False))[0]
    assert "--kv-events-config" not in role.args


PLACED = {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--dist-init-addr"}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_operator_adds_ranks_and_leader_itself(demo: Fleet, preset: str) -> None:
    """Given twice, the second would win, and ours names variables that it does not set."""
    roles = engine_roles(demo.model, release(preset), placed_by_operator=True)
    assert not (PLACED | {"--headless"}).intersection(*(role.args for role in roles))
    assert "LWS_" not in " ".join(roles[0].args)


@pytest.mark.parametrize(
    ("preset", "flag"), [("vllm-tp8-dcp8", "--tensor-parallel-size"), ("sglang-tp8", "--tp-size")]
)
def test_the_operator_can_read_the_number_of_ranks(demo: Fleet, preset: str, flag: str) -> None:
    """It looks for the long flag and a word of its own; else it starts one node alone."""
    role = engine_roles(demo.model, release(preset), placed_by_operator=True)[0]
    assert value_of(role, flag) == "8"


def test_decode_replicas_publish_nothing(demo: Fleet) -> None:
    """Requests bring their cache along; blocks announced there would draw prompts to them."""
    both = release("vllm-pd-2p1d")
    published = {
        role: "--kv-events-config"
        in engine_roles(demo.model, release_for(both, role), role)[0].args
        for role in both.roles
    }
    assert published == {"prefill": True, "decode": False}


def test_a_release_cannot_take_over_our_variables() -> None:
    """Another DYN_NAMESPACE would split the region in two, at random per request."""
    with pytest.raises(ConfigError, match="DYN_NAMESPACE is set by k3fleet"):
        engine_env(release("vllm-tp8-dcp8", env={"DYN_NAMESPACE": "other"}), "demo-us-east")


@pytest.mark.parametrize(
    "name", ["vllm-tp8", "vllm-pd-2p1d", "sglang-tp8", "sglang-pd-2p1d", "trtllm-tep8"]
)
@pytest.mark.parametrize("version", ["0.26.0", "0.33.0"])
def test_a_release_file_is_told_of_every_variable_of_ours(name: str, version: str) -> None:
    """What is only refused when it is rendered may be frozen before."""
    found = release(name)
    engine = found.engine.model_copy(update={"version": version})
    found = found.model_copy(update={"engine": engine, "env": {}})
    assert engine_env(found, "demo-us-east").keys() <= own_variables(found)


def test_the_drain_of_the_engine_is_the_releases() -> None:
    """Dynamo's own default would end streams that the pod has time to finish."""
    env = engine_env(release("vllm-tp8-dcp8", drain_s=1234.0), "demo-us-east")
    assert env["DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS"] == "1234"
