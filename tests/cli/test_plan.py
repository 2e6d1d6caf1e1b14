"""`k3fleet plan` and the behaviour all commands share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cli import main as cli_main
from cli.main import COMMANDS, LazyCommand, main
from fleet.errors import LoadError
from fleet.region_spec import RACK_ID_MAX

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "fleets/demo.yaml")


def test_json_goes_to_stdout_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """`k3fleet plan -o json | jq` must work with warnings, too."""
    assert main(["plan", DEMO, "-o", "json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["totals"]["replicas"] == 18
    assert output.err == ""


def test_the_table_shows_every_rack_with_its_replicas(capsys: pytest.CaptureFixture[str]) -> None:
    """The first thing a reader looks for."""
    main(["plan", DEMO])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["│", "us-east", "│", "use1-r01", "│", "18", "│", "18", "│", "9", "│"] in rows


def test_a_long_rack_name_is_not_cut_in_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """grep for a rack id must find it."""
    rack = "r" * RACK_ID_MAX
    path = tmp_path / "fleet.yaml"
    path.write_text(Path(DEMO).read_text().replace("id: use1-r01", f"id: {rack}"))
    main(["plan", str(path)])
    assert rack in capsys.readouterr().out


def test_every_problem_is_one_error_line_and_exit_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An editor or a CI log picks them up line by line."""
    path = tmp_path / "fleet.yaml"
    path.write_text("name: Demo\nrelease: vllm-tp8-dcp8\nregions: []\n")
    assert main(["plan", str(path)]) == 3
    output = capsys.readouterr()
    assert output.out == ""
    errors = [line for line in output.err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1:3] for line in errors] == [
        [f"{path}:1", "apiVersion"],
        [f"{path}:1", "name"],
        [f"{path}:3", "regions"],
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", DEMO, "-o", "xml"],
        ["plan", DEMO, "--what"],
        ["plam", DEMO],
        ["plan", "no"],
    ],
    ids=["no file", "bad choice", "unknown option", "unknown command", "missing file"],
)
def test_usage_errors_exit_3(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """2 is taken: it means that a measurement could not be judged."""
    assert main(arguments) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("rror: ") == 1


def _stand_in(monkeypatch: pytest.MonkeyPatch, command: click.Command) -> None:
    monkeypatch.setattr(cli_main.LazyGroup, "get_command", lambda *_: command)


def test_each_error_class_has_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts tell a broken load generator from a bad configuration."""

    @click.command()
    def fail() -> None:
        raise LoadError("locust: exited with 1. See the log.")

    _stand_in(monkeypatch, fail)
    assert main(["plan"]) == 8
    assert capsys.readouterr().err == "error: locust: exited with 1. See the log.\n"


def test_a_bug_keeps_its_traceback_and_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A swallowed traceback costs us the bug report; exit code 1 would say no-go."""

    @click.command()
    def fail() -> None:
        raise KeyError("ours")

    _stand_in(monkeypatch, fail)
    assert main(["plan"]) == 70
    assert "KeyError: 'ours'" in capsys.readouterr().err


def test_a_full_disk_is_a_message() -> None:
    """The user's disk is not our bug."""
    command = [sys.executable, "-m", "cli.main", "plan", DEMO, "-o", "json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    message = "error: output: No space left on device. Free some space and retry.\n"
    assert (done.returncode, done.stderr) == (4, message)


@pytest.mark.parametrize("verdict", [0, 1, 2])
def test_a_command_that_judges_returns_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, verdict: int
) -> None:
    """Go, no-go and invalid reach the shell."""

    @click.command()
    def judge() -> int:
        return verdict

    _stand_in(monkeypatch, judge)
    assert main(["plan"]) == verdict


def test_an_interrupt_exits_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As every Unix tool; and without a traceback."""

    @click.command()
    def wait() -> None:
        raise KeyboardInterrupt

    _stand_in(monkeypatch, wait)
    assert main(["plan"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_help_imports_no_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`k3fleet --help` answers at once, whatever a command needs."""
    monkeypatch.setattr(
        cli_main.root, "lazy", {"plan": LazyCommand("cli.nowhere:plan", "Show what would run.")}
    )
    assert main(["--help"]) == 0
    assert "Show what would run." in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most people copy the example and change one word."""
    assert main([name, "--help"]) == 0
    assert "Example:" in capsys.readouterr().out


def test_plan_loads_no_heavy_library() -> None:
    """Pulumi, Locust and Dynamo would cost seconds at every start."""
    program = (
        "import sys; from cli.main import main; "
        f"main(['plan', {DEMO!r}, '-o', 'json']); "
        "print([m for m in ('pulumi', 'locust', 'gevent', 'dynamo', 'numpy') if m in sys.modules], "
        "file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


def test_a_closed_pipe_ends_quietly() -> None:
    """`k3fleet plan FILE | head -1` is ordinary use."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "cli.main", "plan", DEMO]
    done = subprocess.run(
        command, cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_two_problems_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reader knows when the list is done, and that nothing has run."""
    path = tmp_path / "fleet.yaml"
    path.write_text("name: Demo\nrelease: vllm-tp8-dcp8\nregions: []\n")
    main(["plan", str(path)])
    assert capsys.readouterr().err.endswith("3 problems found, nothing was started.\n")
