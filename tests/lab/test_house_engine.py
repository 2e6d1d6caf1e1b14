"""A house engine is run by its own command, or refused before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from house_fleet import double, mocker, write_house_fleet
from lab_builders import pod
from lab_fakes import FakeStore

from fleet.errors import ConfigError
from fleet.load import load_fleet, load_release
from fleet.plan import make_plan
from lab.containers import Place
from lab.engines import mocked_engines
from lab.house_engine import house_engines, house_plan, may_join
from lab.limits import require_rehearsable
from lab.mocked import mocked
from lab.node_context import NodeContext
from lab.pods import PodView
from lab.sizing import lab_needs

LEADER = "leaderworkerset.sigs.k8s.io/worker-index"


class Settings:
    """The part of the agent's settings that a plan needs."""

    model_dir = Path("/lab/model")
    python = Path("/venv/bin/python")


class Node:
    """The part of the node that a plan needs."""

    settings = Settings()

    def __init__(self, *pods: PodView) -> None:
        self.store = FakeStore()
        for item in pods:
            self.store.put(item)


def context(*pods: PodView) -> NodeContext:
    return Node(*pods)  # type: ignore[return-value]


def engine_pod(name: str, rank: str, command: list[str], **changes: Any) -> PodView:
    container = {
        "name": "main",
        "command": command,
        "env": [
            {"name": "LWS_LEADER_ADDRESS", "value": "r01-0-0.r01-0.k3"},
            {"name": "LWS_WORKER_INDEX", "value": rank},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "volumeMounts": [{"name": "weights", "mountPath": "/weights"}],
    }
    return pod(name, labels={LEADER: rank}, spec={"containers": [container]}, **changes)


COMMAND = ["serve", "/weights", "--head=$(LWS_LEADER_ADDRESS)", "--rank", "$(LWS_WORKER_INDEX)"]
HERE = Place(address="127.64.0.12", folder=Path("/lab/pod"))


def test_both_pods_run_the_command_with_their_rank() -> None:
    """The leader's name becomes its address: programs of the lab ask no cluster DNS."""
    first = engine_pod("r01-0-0", "0", COMMAND, address="10.64.0.11")
    second = engine_pod("r01-0-0-1", "1", COMMAND)
    node = context(first, second)
    place = replace(HERE, address="127.64.0.11")
    assert house_plan(first, place, node).argv == (
        *("serve", "/lab/model", "--head=127.64.0.11", "--rank", "0"),
    )
    assert house_plan(second, HERE, node).argv == (
        *("serve", "/lab/model", "--head=127.64.0.11", "--rank", "1"),
    )


def test_the_interpreter_is_the_one_that_has_dynamo() -> None:
    """Only as the program: an argument that reads `python3` is the engine's business."""
    leader = engine_pod("r01-0-0", "0", ["python3", "-m", "serve", "python3"])
    argv = house_plan(leader, HERE, context(leader)).argv
    assert argv == ("/venv/bin/python", "-m", "serve", "python3")


@pytest.mark.parametrize(
    ("leader", "may"),
    [
        ({"address": "10.64.0.11"}, True),
        ({"address": None}, False),
        ({"address": "10.64.0.11", "deleting": True}, False),
    ],
)
def test_the_second_pod_waits_for_an_address_of_its_leader(
    leader: dict[str, Any], may: bool
) -> None:
    """As the init container of its manifest does."""
    second = engine_pod("r01-0-0-1", "1", COMMAND)
    first = engine_pod("r01-0-0", "0", COMMAND, **leader)
    assert may_join(second, context(first, second)) is may


def test_the_second_pod_waits_for_a_leader_at_all() -> None:
    """The leader of an earlier group may be gone."""
    second = engine_pod("r01-0-0-1", "1", COMMAND)
    assert not may_join(second, context(second))


@pytest.mark.parametrize("custom", [double(), mocker()])
def test_a_command_that_is_here_can_be_rehearsed(tmp_path: Path, custom: dict[str, Any]) -> None:
    """`python3` is the lab's own, `sleep` is on PATH."""
    fleet = load_fleet(write_house_fleet(tmp_path, custom))
    require_rehearsable(fleet, path="/usr/bin:/bin")
    assert house_engines(fleet) == {fleet.release_id}
    assert mocked_engines(fleet, 16) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"command": ["house-serve"]},
        {"command": ["/opt/house/serve"]},
        {"command": ["./serve"]},
        {"worker_command": ["house-serve"]},
    ],
)
def test_a_command_that_is_not_here_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Before anything is started, with the program and what to do."""
    (tmp_path / "serve").write_text("#!/bin/sh\n")
    (tmp_path / "serve").chmod(0o755)
    fleet = load_fleet(write_house_fleet(tmp_path, {**double(), **changes}))
    said = r"release house: engine\.custom: the program '[^']*serve' is not on .* PATH.* Put it"
    with pytest.raises(ConfigError, match=said):
        require_rehearsable(fleet, path="/usr/bin:/bin")


def test_more_nodes_than_the_double_has_ranks_for_are_refused(tmp_path: Path) -> None:
    """Two processes with one rank would fight for it."""
    fleet = load_fleet(write_house_fleet(tmp_path, double(), healthy_nodes=8, nodes=4))
    with pytest.raises(ConfigError, match="4 nodes; the lab gives ranks to 2"):
        require_rehearsable(fleet, path="/usr/bin:/bin")


def test_both_pods_of_a_replica_count_as_processes(tmp_path: Path) -> None:
    """And no frontend, when nothing registers with one."""
    fleet = load_fleet(write_house_fleet(tmp_path, double()))
    needs = lab_needs(fleet, make_plan(fleet), real_tokenizer=False)
    assert needs.processes == 6 + 2 * 2 + 1


def test_the_report_does_not_call_a_house_engine_mocked(tmp_path: Path) -> None:
    """What it measured is the engine that ran, and not a table."""
    fleet = load_fleet(write_house_fleet(tmp_path, double()))
    assert not [text for text in mocked(fleet.release) if "mocker" in text]
    assert [text for text in mocked(fleet.release) if "its image was not used" in text]


def test_what_is_mocked_depends_on_the_release() -> None:
    """A reader takes the list at its word."""
    vllm, sglang, split = (
        load_release(name, beside=Path()) for name in ("vllm-tp8", "sglang-tp8", "vllm-pd-2p1d")
    )
    assert not [text for text in mocked(vllm) if text.startswith(("Scheduling", "Cache transfer"))]
    assert [text for text in mocked(sglang) if text.startswith("Scheduling")]
    assert [text for text in mocked(split) if text.startswith("Cache transfer")]
