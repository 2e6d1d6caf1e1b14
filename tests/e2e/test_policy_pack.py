"""The policy pack over a region that is there, with the real engine and a real API server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from api_planes import PlaneSpec, running
from cli_runs import K3FLEET

pytestmark = pytest.mark.lab

PACK = Path(__file__).parents[2] / "infra/policy"
FLEET = {
    "apiVersion": "k3fleet/v1",
    "name": "judged",
    "release": "vllm-tp8-dcp8",
    "regions": [{"name": "us-east", "racks": [{"id": "use1-r01"}]}],
}
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start an API server, and write a fleet of one rack on it."""
    spec = PlaneSpec(version=(1, 37), kinds="ours")
    with running(spec, tmp_path_factory.mktemp("plane")) as plane:
        made = tmp_path_factory.mktemp("judged")
        (made / "fleet.yaml").write_text(yaml.safe_dump(FLEET))
        (made / "kubeconfig").write_bytes(plane.control.kubeconfig.read_bytes())
        yield made


def k3fleet(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command, *rest = words
    return subprocess.run(
        [K3FLEET, command, "fleet.yaml", *rest],
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_a_region_comes_up_under_its_policies(folder: Path) -> None:
    """Before anything is made, and again with what the API server has made of it."""
    first = k3fleet(folder, "up", "--yes", "--policy-pack", str(PACK))
    assert first.returncode == 0, first.stdout + first.stderr
    again = k3fleet(folder, "preview", "--expect-no-changes", "--policy-pack", str(PACK))
    assert again.returncode == 0, again.stdout + again.stderr
