"""The load generator is brought into a real API server, which says what that changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_planes import Plane, PlaneSpec, running

from cli.main import main
from lab.kubeconfig import admin_kubeconfig

pytestmark = pytest.mark.lab

DEMO = Path(__file__).parents[2] / "fleets" / "demo.yaml"
LOADTEST = {"image": "registry.example/k3fleet@sha256:" + "0" * 64, "tokenizer_dir": "/opt/kimi"}
Command = Callable[..., int]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Start an API server."""
    with running(PlaneSpec(version=(1, 37), kinds="lab"), tmp_path_factory.mktemp("p")) as started:
        yield started


@pytest.fixture
def command(plane: Plane, tmp_path: Path) -> Command:
    """Give the commands of a fleet that has a load generator, against that API server."""
    kubeconfig = tmp_path / "kubeconfig"
    admin_kubeconfig(kubeconfig, url=plane.server.url, pki=plane.server.pki)

    def run(name: str, *words: str, users: int = 8) -> int:
        fleet = yaml.safe_load(DEMO.read_text())
        fleet["loadtest"] = {**LOADTEST, "users": users}
        path = tmp_path / "fleet.yaml"
        path.write_text(yaml.safe_dump(fleet))
        place = ("--region", "us-east", "--kubeconfig", str(kubeconfig))
        return main(["loadtest", name, str(path), *place, *words])

    return run


def verbs(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    found = json.loads(capsys.readouterr().out)
    return {change["what"].split("-")[0]: change["verb"] for change in found["changes"]}


def make_namespace(plane: Plane) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "k3"}}
    assert plane.server.apply(namespace, keep=True).accepted


def test_deploying_says_what_it_does_and_is_done_once(
    plane: Plane, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second time there is nothing to do; changed settings change what reads them."""
    assert command("deploy", "--yes") == 3
    assert "Bring the region up first" in capsys.readouterr().err
    make_namespace(plane)
    assert command("deploy") == 3
    assert "Give --yes" in capsys.readouterr().err
    assert command("deploy", "--yes", "-o", "json") == 0
    assert set(verbs(capsys).values()) == {"create"}
    assert command("deploy", "-o", "json") == 0  # nothing to ask for
    assert set(verbs(capsys).values()) == {"keep"}
    assert command("deploy", "--yes", "-o", "json", users=9) == 0
    changed = json.loads(capsys.readouterr().out)["changes"]
    assert {change["what"].split("-")[0]: change["verb"] for change in changed}[
        "ConfigMap loadtest"
    ] == "create"
    assert {c["what"] for c in changed if c["verb"] == "change"} == {
        "Deployment loadtest-master",
        "Deployment loadtest-worker",
    }


def test_what_a_stack_holds_is_not_taken_from_it(
    plane: Plane, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two managers that want different values would undo each other's work for ever."""
    make_namespace(plane)
    assert command("deploy", "--yes") == 0
    held: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "loadtest-worker", "namespace": "k3"},
    }
    assert plane.server.merge(held, {"spec": {"replicas": 40}}).accepted
    capsys.readouterr()
    assert command("deploy", "--yes") == 7
    assert "pulumi up of the serving layer" in capsys.readouterr().err


def test_a_load_needs_pods(
    plane: Plane, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing runs on an API server without nodes, and each command says so."""
    make_namespace(plane)
    for name in ("start", "stop", "collect"):
        assert command(name) == 7
        assert "no pod of it runs in k3" in capsys.readouterr().err
