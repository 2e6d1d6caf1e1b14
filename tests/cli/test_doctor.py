"""`k3fleet doctor`: says what is missing before a rehearsal finds out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.doctor import doctor
from cli.main import main
from lab.tool_table import wanted_tools

OLD_GO = "#!/bin/sh\nprintf 'go1.19\\nlocal\\n/tmp\\n/tmp\\n'\n"
NEW_GO = "#!/bin/sh\nprintf 'go1.30.0\\nlocal\\n/tmp\\n/tmp\\n'\n"


def run(home: Path, *arguments: str, go: str | None = None) -> Result:
    """Run the command on a machine with an empty cache and at most a Go."""
    programs = home / "bin"
    programs.mkdir()
    if go:
        (programs / "go").write_text(go)
        (programs / "go").chmod(0o755)
    environ = {"PATH": str(programs), "HOME": str(home), "XDG_CACHE_HOME": ""}
    return CliRunner().invoke(doctor, arguments, env=environ, standalone_mode=False)


def test_tools_that_can_be_built_are_no_problem(tmp_path: Path) -> None:
    """A fresh machine with Go needs no further preparation."""
    assert run(tmp_path, go=NEW_GO).return_value == 0


@pytest.mark.parametrize("go", [None, OLD_GO])
def test_without_a_usable_go_there_is_a_problem(tmp_path: Path, go: str | None) -> None:
    """Nothing can be built: better known now than in the middle of a rehearsal."""
    assert run(tmp_path, go=go).return_value == 5


def test_json_lists_every_wanted_tool(tmp_path: Path) -> None:
    """A script reads it to decide whether to warm the cache."""
    result = json.loads(run(tmp_path, "-o", "json", go=NEW_GO).stdout)
    names = {tool.name for tool in wanted_tools()} | {"pulumi-language-python"}
    assert {tool["name"] for tool in result["tools"]} == names
    assert {tool["status"] for tool in result["tools"]} == {"ok", "to build"}


def test_doctor_builds_nothing(tmp_path: Path) -> None:
    """A question must not start half an hour of compiling."""
    run(tmp_path, go=NEW_GO)
    assert not (tmp_path / ".cache").exists()


def test_the_exit_code_reaches_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI asks by exit code."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["doctor"]) == 5


@pytest.mark.parametrize("chosen", [(), ("gcp",)])
def test_promises_are_shown_without_a_look_at_the_machine(
    tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    """They are the same everywhere: no Go is needed to read them."""
    result = run(tmp_path, "--clouds", *chosen)
    assert result.return_value == 0
    assert "one NVLink domain" in result.stdout
    assert not (tmp_path / ".cache").exists()


def test_promises_of_a_fleet_are_those_of_its_clouds(tmp_path: Path) -> None:
    """The other columns are noise to whoever has chosen."""
    fleet = str(Path(__file__).parents[2] / "fleets/launch.yaml")
    result = json.loads(run(tmp_path, fleet, "--clouds", "-o", "json").stdout)
    assert set(result) == {"aws", "existing"}


def test_promises_can_be_read_by_a_program(tmp_path: Path) -> None:
    """A change of cloud is decided in a spreadsheet."""
    result = json.loads(run(tmp_path, "--clouds", "azure", "-o", "json").stdout)
    assert set(result) == {"azure"}
    assert set(result["azure"][0]) == {"what", "kept", "instead", "unverified"}
