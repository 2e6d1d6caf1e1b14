"""`k3fleet config lint`: exit codes, and what is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from provider_fleets import aws_region, write_fleet

from cli.main import main


def test_a_clean_fleet_shows_what_would_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 0, and the reader sees which cloud each region is for."""
    here = {"name": "here", "racks": [{"id": "h-r01"}]}
    assert main(["config", "lint", str(write_fleet(tmp_path, aws_region(), here))]) == 0
    out = capsys.readouterr().out
    assert [word in out for word in ("us-east", "aws", "is made", "is there already")] == [True] * 4


def test_what_nobody_could_verify_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever brings up the first GB300 knows where to look; it is no reason to refuse."""
    region = aws_region(racks=3)
    region["racks"][0]["capacity"]["instance_type"] = "p6e-gb200.36xlarge"  # AWS gives its cards
    path = str(write_fleet(tmp_path, region))
    assert main(["config", "lint", path]) == 0
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith(f"note: {path}:")
    assert "no public source gives the network cards of p6e-gb300.36xlarge" in note
    assert main(["config", "lint", path, "-o", "json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["notes"]
    assert told["path"] == "regions[0].racks[1].capacity.instance_type"


def test_problems_are_on_stderr_and_exit_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with file, line, path, and what to do."""
    region = aws_region()
    region["cluster"]["zone_groups"] = []
    path = write_fleet(tmp_path, region)
    assert main(["config", "lint", str(path)]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    line = next(
        number
        for number, text in enumerate(path.read_text().splitlines(), 1)
        if "us-east-1-dfw-2a:" in text
    )
    assert shown.err.startswith(f"error: {path}:{line}: regions[0].cluster.network.nodes.")
    assert "Opt the account in to us-east-1-dfw-2" in shown.err


def test_json_holds_the_same_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CI reads them from stdout, with the exit code of a wrong configuration."""
    region = aws_region()
    region["racks"][0].pop("capacity")
    assert main(["config", "lint", str(write_fleet(tmp_path, region)), "-o", "json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["clean"] is False
    assert [item["path"] for item in report["problems"]] == ["regions[0].racks[0]"]


def test_a_file_that_is_no_fleet_is_reported_the_same_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads the JSON need not know at which stage a file was refused."""
    path = tmp_path / "fleet.yaml"
    path.write_text("apiVersion: k3fleet/v1\n")
    assert main(["config", "lint", str(path), "-o", "json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert {item["path"] for item in report["problems"]} == {"name", "release", "regions"}


def test_a_stack_file_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a program is told is the fleet file and its stack's configuration."""
    stack = tmp_path / "Pulumi.cluster-us-east.yaml"
    stack.write_text(
        "config: {k3fleet-cluster:fleet: f, k3fleet-cluster:region: us-east, "
        "k3fleet-cluster:apiVersion: k3fleet/v9}\n"
    )
    fleet = str(write_fleet(tmp_path, aws_region()))
    assert main(["config", "lint", fleet, "--stack", str(stack)]) == 3
    assert "'k3fleet/v9' is newer than this k3fleet" in capsys.readouterr().err


def test_pulumi_is_not_needed(tmp_path: Path) -> None:
    """A reviewer's laptop and a CI job check a file without any SDK."""
    code = (
        "import sys; from cli.main import main; "
        f"code = main(['config', 'lint', {str(write_fleet(tmp_path, aws_region()))!r}]); "
        "sys.exit(code or 10 * any(name.startswith('pulumi') for name in sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )
