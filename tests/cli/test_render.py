"""`k3fleet render`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import main

ROOT = Path(__file__).parents[2]
FLEET = """\
apiVersion: k3fleet/v1
name: demo
release: vllm-tp8-dcp8
regions:
  - name: us-east
    racks:
      - id: use1-r01
  - name: eu-west
    racks:
      - id: euw1-r01
        healthy_nodes: 17
"""


@pytest.fixture
def fleet_file(tmp_path: Path) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return str(path)


def test_every_region_gets_a_folder_per_layer(fleet_file: str, tmp_path: Path) -> None:
    """Layers are applied one after the other, regions each by themselves."""
    assert main(["render", fleet_file, "--out", str(tmp_path / "out")]) == 0
    folders = {str(file.parent.relative_to(tmp_path / "out")) for file in files(tmp_path / "out")}
    assert folders == {
        f"{region}/{layer}"
        for region in ("us-east", "eu-west")
        for layer in ("platform", "serving")
    }


def files(out: Path) -> list[Path]:
    return sorted(out.rglob("*.yaml"))


def test_a_rack_with_17_healthy_nodes_gets_8_replicas(fleet_file: str, tmp_path: Path) -> None:
    """A replica needs two nodes, so one healthy node stays idle."""
    main(["render", fleet_file, "--out", str(tmp_path / "out")])
    names = [file.name for file in files(tmp_path / "out/eu-west") if "leaderworker" in file.name]
    assert names == [f"20-leaderworkerset-euw1-r01-{slot}.yaml" for slot in range(8)]


def test_one_region_can_be_asked_for(fleet_file: str, tmp_path: Path) -> None:
    """A region is what one person changes at a time."""
    main(["render", fleet_file, "--out", str(tmp_path / "out"), "--region", "eu-west"])
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == ["eu-west"]


def test_an_unknown_region_writes_nothing(
    fleet_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier rendering must not be replaced by an empty one."""
    code = main(["render", fleet_file, "--out", str(tmp_path / "out"), "--region", "mars"])
    assert (code, (tmp_path / "out").exists()) == (3, False)
    assert "Use one of: us-east, eu-west." in capsys.readouterr().err


def test_json_says_what_was_written(
    fleet_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For scripts that hand the folder on."""
    main(["render", fleet_file, "--out", str(tmp_path / "out"), "-o", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["files"] == len(files(tmp_path / "out"))
    assert printed["regions"] == ["us-east", "eu-west"]


def test_a_full_folder_of_someone_else_is_a_users_mistake(
    fleet_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and one line, no traceback."""
    assert main(["render", fleet_file, "--out", str(tmp_path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_folder_one_is_in_is_not_replaced(
    fleet_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell would stand in a folder that is gone."""
    below = tmp_path / "out" / "below"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    for out in (".", "..", str(tmp_path / "out")):
        assert main(["render", fleet_file, "--out", out]) == 3
    assert main(["render", fleet_file, "--out", "manifests"]) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_half_of_it(tmp_path: Path, number: signal.Signals) -> None:
    """A pipeline that is cancelled must not leave a folder that looks like a rendering."""
    racks = "".join(f"      - id: r{index}\n" for index in range(200))
    path = tmp_path / "fleet.yaml"
    path.write_text(f"{FLEET.partition('  - name: eu-west')[0]}{racks}")
    command = [
        sys.executable,
        "-m",
        "cli.main",
        "render",
        str(path),
        "--out",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child:
        while not any(tmp_path.glob(".out-*/new/us-east/platform/*")):
            assert child.poll() is None, child.communicate()[1]
        child.send_signal(number)
        _, errors = child.communicate()
    assert (child.returncode, errors.strip()) == (128 + number, "interrupted")
    assert [item.name for item in tmp_path.iterdir()] == ["fleet.yaml"]
