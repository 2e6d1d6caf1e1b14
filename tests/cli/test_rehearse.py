"""A rehearsal that cannot work is refused at once, and nothing is started for it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cli import rehearse as command
from cli.main import main

DEMO = str(Path(__file__).parents[2] / "fleets" / "demo.yaml")
EMPTY_GATES = "gates: []\n"


def refused(folder: Path, *arguments: str) -> int:
    code = main(["rehearse", *arguments, "--work-dir", str(folder / "work")])
    assert not (folder / "work" / "lab").exists(), "a lab was started"
    assert not (folder / "work" / "runs").exists(), "a run was begun"
    return code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--users", "3", "--sessions-per-minute", "5"], "--users, --sessions-per-minute"),
        (["--traffic", "interactive_agents"], "interactive_agent"),
        (["--traffic", "trace:no/such/file.json"], "no/such/file.json"),
        (["--duration", "soon"], "'soon' is not a duration"),
        (["--duration", "0s"], "not a positive duration"),
        (["--users", "0"], "--users"),
        (["--gates", "no-gates.yaml"], "no-gates.yaml"),
        (["--gates", "lanch"], "Did you mean 'launch'"),
    ],
)
def test_bad_options_are_configuration_errors(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Finding a typo after a minute of bringing a lab up would be rude."""
    assert refused(tmp_path, DEMO, *arguments) == 3
    assert said in capsys.readouterr().err


def test_a_gates_file_is_read_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A run whose judge is broken would be wasted."""
    gates = tmp_path / "gates.yaml"
    gates.write_text(EMPTY_GATES)
    assert refused(tmp_path, DEMO, "--gates", str(gates)) == 3
    assert "gates.yaml" in capsys.readouterr().err


def test_a_fleet_for_a_data_centre_is_refused_with_its_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """`plan` and `render` work for it; a rehearsal has to say what it would need."""
    lines = ["apiVersion: k3fleet/v1", "name: big", "release: vllm-tp8-dcp8", "regions:"]
    for region in ("a", "b"):
        lines += [f"  - name: {region}", "    racks:"]
        lines += [f"      - id: {region}-r{rack:03d}" for rack in range(200)]
    fleet = tmp_path / "big.yaml"
    fleet.write_text("\n".join(lines) + "\n")
    assert main(["plan", str(fleet)]) == 0
    assert refused(tmp_path, str(fleet)) == 3
    said = capsys.readouterr().err
    assert "3600 replicas in 2 region(s) need about" in said


def test_a_taken_port_of_the_web_page_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The page would fail after the lab is up; say so before, and which port it is."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(command, "WEB_PORT", port)
        assert refused(tmp_path, DEMO, "--web") == 6
    assert f"127.0.0.1:{port}: the port is in use" in capsys.readouterr().err
