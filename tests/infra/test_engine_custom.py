"""The command of a house engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleet.load import load_model, load_release
from fleet.release import Release
from infra.engine import engine_roles

K3 = load_model("kimi-k3", beside=Path())


def house(**custom: Any) -> Release:
    base = load_release("vllm-tp8", beside=Path()).model_dump()
    engine = {
        "kind": "custom",
        "image": "registry.example/house:1",
        "version": "1",
        "custom": {"registers": "nothing", "port": 8123, **custom},
    }
    return Release.model_validate({**base, "engine": engine, "args": ["--quiet"]})


def test_every_word_of_the_template_is_filled_in() -> None:
    """What only Kubernetes knows is left to it, in its own spelling."""
    names = ("weights", "model", "nodes", "rank", "leader", "tensor", "host", "port")
    words = [f"{{{name}}}" for name in (*names, "context_tokens")]
    leader, worker = engine_roles(K3, house(command=["serve", *words, "{{json}}"]))
    assert leader.command == (
        "serve",
        "/weights",
        "moonshotai/Kimi-K3",
        "2",
        "$(LWS_WORKER_INDEX)",
        "$(LWS_LEADER_ADDRESS)",
        "8",
        "$(POD_IP)",
        "8123",
        "1048576",
        "{json}",
    )
    assert worker.command == leader.command


def test_other_nodes_may_have_a_command_of_their_own() -> None:
    """Some engines start a server and its helpers by different programs."""
    release = house(command=["serve"], worker_command=["help", "{leader}"])
    leader, worker = engine_roles(K3, release)
    assert leader.command == ("serve",)
    assert worker.command == ("help", "$(LWS_LEADER_ADDRESS)")


def test_arguments_of_the_release_follow() -> None:
    """So that a release can change one without writing the template again."""
    assert [role.args for role in engine_roles(K3, house(command=["serve"]))] == [("--quiet",)] * 2
