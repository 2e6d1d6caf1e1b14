"""Fixtures of the command line's tests: a gateway double, what a load test leaves, a bare lab."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import fake_cluster
from fake_pulumi import FakePulumi
from provision_place import Place
from run_folders import GENERATOR, RECORD, make_run, sessions_of

from cli.wiring import surroundings
from fleet.load import load_fleet
from infra.rollout.rollouts import Rollouts
from lab.rollout import LabVenue
from lab.state import LabState

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DEMO = Path(__file__).parents[2] / "fleets/demo.yaml"
DOUBLE = Path(__file__).parents[1] / "loadtest" / "fake_gateway.py"


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tokenizer.json with 676 one-token words."""
    folder = tmp_path_factory.mktemp("model")
    words = [f"Ġ{a}{b}x" for a in LETTERS for b in LETTERS]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = {"model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def gateway(tokenizer_dir: Path) -> Iterator[str]:
    """Run the gateway double in a process of its own and give its URL."""
    command = [sys.executable, str(DOUBLE), str(tokenizer_dir / "tokenizer.json")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture
def saved_run(tmp_path: Path) -> Callable[..., Path]:
    """Write the folder of a run in which all went well."""

    def write(name: str = "run", *, count: int = 20, **settings: Any) -> Path:
        records = sessions_of(RECORD, count)
        return make_run(tmp_path / name, records, GENERATOR, **settings)

    return write


@pytest.fixture
def rollouts(tmp_path: Path) -> Rollouts:
    """Give a lab that only has a folder."""
    fleet = load_fleet(DEMO)
    state = LabState.model_validate(
        {
            "lab_id": "x",
            "fleet_file": DEMO,
            "started_at": "2026-01-01T00:00:00Z",
            "kept": True,
            "regions": {},
            "namespace": "k3",
            "log_dir": tmp_path,
            "env_file": tmp_path,
            "load_settings": tmp_path,
        }
    )
    around = replace(surroundings(fleet, tmp_path), environ={})
    return Rollouts(venue=LabVenue(fleet=fleet, state=state, around=around, lab_dir=tmp_path))


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Place]:
    """Give a place with one region, from which nothing leads to this machine's own clusters."""
    pulumi = FakePulumi(tmp_path / "fake")
    monkeypatch.chdir(tmp_path)
    for name, value in {**pulumi.env, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    with fake_cluster() as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig", "us-east")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        made = Place(tmp_path, pulumi, cluster, capsys)
        made.write("us-east")
        yield made
