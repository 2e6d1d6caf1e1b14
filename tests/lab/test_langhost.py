"""The language host: real `pulumi up` runs through it, and what it does on its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from engine_stack import PULUMI_TIMEOUT_S, Stack, built_toolchain, new_stack
from pulumi.runtime.proto.language_pb2 import ProgramInfo, RunRequest

from lab.langhost import Programs, interpreter, program_request, required_plugins
from lab.toolchain import Toolchain

STASH = """
import pulumi
import helper

config = pulumi.Config()
kept = pulumi.Stash("kept", input={"release": config.require("release")})
pulumi.export("kept", kept.output)
pulumi.export("licence", config.get_secret("licence"))
"""
WAITS = """
import os, pathlib, time
pathlib.Path("pid.tmp").write_text(str(os.getpid()))
os.rename("pid.tmp", "pid")
time.sleep(600)
"""


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return built_toolchain()


@pytest.fixture
def stack(toolchain: Toolchain, tmp_path: Path) -> Stack:
    stack = new_stack(toolchain, tmp_path)
    stack.program(STASH)
    stack.run("config", "set", "release", "r1")
    return stack


def test_a_second_up_changes_nothing(stack: Stack) -> None:
    """What `pulumi up` promises: the same program gives the same stack."""
    first = stack.up()
    second = stack.up("--expect-no-changes")
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + second.stdout


def test_outputs_reach_the_stack(stack: Stack) -> None:
    """Exports are how one stack hands its results to the next."""
    stack.up()
    outputs = json.loads(stack.run("stack", "output", "--json").stdout)
    assert outputs["kept"] == {"release": "r1"}


def test_a_secret_stays_a_secret(stack: Stack) -> None:
    """Which configuration values are secret must survive the way to the program."""
    stack.run("config", "set", "--secret", "licence", "s3cret")
    stack.up()
    outputs = json.loads(stack.run("stack", "output", "--json").stdout)
    assert outputs["licence"] == "[secret]"


def test_a_secret_is_in_no_argument_and_no_variable(stack: Stack) -> None:
    """Other users of the machine can read a process's arguments."""
    stack.run("config", "set", "--secret", "licence", "s3cret")
    stack.program(
        "import os, pathlib, pulumi\n"
        "assert pulumi.Config().require_secret('licence')\n"
        "for kind in ('cmdline', 'environ'):\n"
        "    pathlib.Path(kind).write_bytes(pathlib.Path(f'/proc/self/{kind}').read_bytes())\n"
    )
    assert stack.up().returncode == 0
    seen = (stack.folder / "cmdline").read_bytes() + (stack.folder / "environ").read_bytes()
    assert b"s3cret" not in seen


def test_a_traceback_starts_at_the_users_program(stack: Stack) -> None:
    """The user is to see his own lines, not the host's and the SDK's."""
    stack.program("import helper\nhelper.fail()\n")
    (stack.folder / "helper.py").write_text("def fail():\n    raise ValueError('no racks')\n")
    failed = stack.up()
    assert failed.returncode != 0
    assert "error: Program failed" in failed.stdout
    assert "ValueError: no racks" in failed.stdout
    assert "langexec" not in failed.stdout


def test_an_exit_code_is_reported(stack: Stack) -> None:
    """A program that ends itself with an error has failed."""
    stack.program("import sys\nsys.exit(5)\n")
    failed = stack.up()
    assert failed.returncode != 0
    assert "non-zero exit code: 5" in failed.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_update_ends_the_program(stack: Stack, number: signal.Signals) -> None:
    """A program left behind would go on changing resources nobody watches."""
    stack.program(WAITS)
    update = subprocess.Popen(
        ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"],
        cwd=stack.folder,
        env=stack.environ,
        stdout=subprocess.DEVNULL,
    )
    child = program_of(update, pid_file=stack.folder / "pid")
    update.send_signal(number)
    assert update.wait(PULUMI_TIMEOUT_S) != 0
    assert child.wait(10) is None


def program_of(update: subprocess.Popen[bytes], *, pid_file: Path) -> psutil.Process:
    """Wait for an update's program to write its process id."""
    while not pid_file.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the update ended before its program began: {update.wait(0.1)}")
    return psutil.Process(int(pid_file.read_text()))


def request_for(folder: Path, **changes: Any) -> dict[str, Any]:
    settings = {"monitor": None, "engine": None, "project": "p", "stack": "s", "parallel": 1}
    return {
        "program": str(folder),
        "folder": str(folder),
        "arguments": [],
        "config": {},
        "secret_keys": [],
        "settings": settings,
        **changes,
    }


def test_ended_programs_start_no_new_child(tmp_path: Path) -> None:
    """A Run that arrives after the signal must not outlive the host."""
    programs = Programs()
    programs.end()
    assert programs.run(Path(sys.executable), request_for(tmp_path)) == -signal.SIGTERM


def test_the_program_of_a_folder_is_the_folder() -> None:
    """`main` absent in Pulumi.yaml: the engine sends the folder and `.`."""
    info = ProgramInfo(root_directory="/p", program_directory="/p", entry_point=".")
    request = program_request(RunRequest(info=info), engine="e")
    assert request["program"] == "/p"


def test_the_program_of_a_file_is_that_file() -> None:
    """`main: deploy/rack.py`: the engine splits it into folder and file."""
    info = ProgramInfo(root_directory="/p", program_directory="/p/deploy", entry_point="rack.py")
    request = program_request(RunRequest(info=info), engine="e")
    assert request["program"] == "/p/deploy/rack.py"


def test_without_option_our_own_interpreter_runs_programs() -> None:
    """Our programs import our packages."""
    assert interpreter(ProgramInfo(root_directory="/p")) == Path(sys.executable)


def test_a_missing_virtual_environment_is_named(tmp_path: Path) -> None:
    """Falling back to another interpreter would run the program with other packages."""
    info = ProgramInfo(root_directory=str(tmp_path))
    info.options.update({"virtualenv": "venv"})
    with pytest.raises(FileNotFoundError, match=r"runtime\.options\.virtualenv.*venv/bin/python"):
        interpreter(info)


def test_a_virtual_environment_is_used(tmp_path: Path) -> None:
    """A program with packages of its own says so in Pulumi.yaml."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    info = ProgramInfo(root_directory=str(tmp_path))
    info.options.update({"virtualenv": "venv"})
    assert interpreter(info) == python


def test_the_kubernetes_provider_is_asked_for_in_its_pinned_version() -> None:
    """Another version than the one on PATH would make the engine warn or download."""
    assert ("kubernetes", "v4.25.0") in list(required_plugins())
