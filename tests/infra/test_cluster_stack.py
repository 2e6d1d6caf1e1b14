"""The cluster layer's project, run by the real engine as somebody runs it by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from provider_fleets import aws_region, existing_region, write_fleet

import infra.clouds
from cli.wiring import cache_dir
from infra.outputs import ClusterOutputs, read_outputs
from lab.toolchain import Missing, ensure_tools, find_tools

PROJECT = Path(infra.clouds.__file__).parents[1] / "cluster"
STACK = "cluster-here"
PULUMI_TIMEOUT_S = 120


class Silent:
    """A progress that nobody watches."""

    def step(self, name: str) -> None: ...

    def update(self, text: str) -> None: ...


@dataclass
class ByHand:
    """Pulumi in a copy of the project's folder: it writes its stack file beside the program."""

    project: Path
    environ: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "-C", str(self.project)],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PULUMI_TIMEOUT_S,
            check=False,
        )

    def configure(self, **values: object) -> None:
        for key, value in values.items():
            self.done("config", "set", key, str(value), "-s", STACK)

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--yes", "-s", STACK, *arguments)

    def done(self, *arguments: str) -> str:
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture
def by_hand(tmp_path: Path) -> ByHand:
    """Prepare an empty backend, or skip where the engine is not built."""
    cache = cache_dir(os.environ)
    missing = [a.tool.name for a in find_tools(cache, "").values() if isinstance(a, Missing)]
    if missing:
        pytest.skip(f"not built yet: {', '.join(missing)}")
    tools = ensure_tools(cache_dir=cache, environ={"PATH": ""}, progress=Silent())
    (tmp_path / "state").mkdir()
    environ = os.environ | {
        "PATH": f"{tools.bin_dir}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": (tmp_path / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    by_hand = ByHand(project=project, environ=environ)
    by_hand.done("stack", "init", STACK)
    return by_hand


def test_plain_pulumi_up_hands_an_existing_cluster_on(by_hand: ByHand, tmp_path: Path) -> None:
    """The outputs of a real stack are what readers ask for, and a second run changes nothing."""
    by_hand.configure(fleet=write_fleet(tmp_path, existing_region("here", racks=2)), region="here")
    first = by_hand.up("--skip-preview")
    assert first.returncode == 0, first.stdout + first.stderr
    stored = json.loads(by_hand.done("stack", "output", "--json", "-s", STACK))
    outputs = read_outputs("cluster", STACK, stored)
    assert isinstance(outputs, ClusterOutputs)
    assert outputs.racks == {"here-r01": "DH1", "here-r02": "DH2"}
    assert outputs.ca is None
    again = by_hand.up("--skip-preview", "--expect-no-changes")
    assert again.returncode == 0, again.stdout + again.stderr


def test_plain_pulumi_up_refuses_a_wrong_fleet_before_it_starts(
    by_hand: ByHand, tmp_path: Path
) -> None:
    """No provider is even loaded: the message is ours, without a traceback."""
    region = aws_region("here")
    region["cluster"]["zone_groups"] = []
    by_hand.configure(fleet=write_fleet(tmp_path, region), region="here")
    refused = by_hand.up("--skip-preview")
    assert refused.returncode != 0
    said = refused.stdout + refused.stderr
    assert "is a Local Zone, and its zone group is not named" in said
    assert "Traceback" not in said
    assert "no resource plugin" not in said
