"""Running Pulumi: a stub stands for the command line, which real runs use elsewhere."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from patience import wait_until

from fleet.errors import ApplyError, BusyError, ToolError
from infra.options import Options
from infra.settings import Settings
from infra.stacks import StackRunner, run_together
from infra.state.files import FileState

# Notes what it was asked, says what it was told to say, and can hang like an update does.
STUB = f"""#!{sys.executable}
import json, os, pathlib, signal, subprocess, sys
told = pathlib.Path(os.environ["STUB"])
plan = json.loads((told / "plan.json").read_text())
args = sys.argv[1:]
shown = {{k: v for k, v in os.environ.items() if k.startswith("PULUMI_") or k == "KUBECONFIG"}}
with (told / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({{"args": args, "env": shown}}) + "\\n")
if args[:2] == ["stack", "init"]:
    backend = pathlib.Path(os.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
    project = pathlib.Path("Pulumi.yaml").read_text().split()[1]
    stack = backend / ".pulumi/stacks" / project / (args[2] + ".json")
    stack.parent.mkdir(parents=True, exist_ok=True)
    stack.write_text("{{}}")
    sys.exit(0)
print(plan.get("prints", ""))
if args[:2] == ["stack", "output"]:
    sys.exit(plan.get("code", 0))
with open(args[args.index("--event-log") + 1], "w") as log:
    log.writelines(json.dumps(event) + "\\n" for event in plan.get("events", []))
if plan.get("hangs"):
    plugin = subprocess.Popen(["sleep", "300"], process_group=0)
    (told / "plugin").write_text(str(plugin.pid))
    signal.signal(signal.SIGINT, lambda *_: (told / "interrupted").touch() or sys.exit(1))
    (told / "started").touch()
    signal.pause()
sys.exit(plan.get("code", 0))
"""

SUMMARY = {"summaryEvent": {"resourceChanges": {"create": 3, "same": 2}}}
OUTPUTS = {
    "resOutputsEvent": {
        "metadata": {"type": "pulumi:pulumi:Stack", "new": {"outputs": {"serial": 4}}}
    }
}


def failure(text: str, name: str = "Service/k3/engines") -> dict[str, Any]:
    urn = f"urn:pulumi:s::p::kubernetes:core/v1:Service::{name}"
    return {"diagnosticEvent": {"severity": "error", "message": text, "urn": urn}}


class Stub:
    """The stub's orders and its notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "pulumi").write_text(STUB)
        (self.bin / "pulumi").chmod(0o755)
        self.plan()

    def plan(self, **plan: object) -> None:
        (self.folder / "plan.json").write_text(json.dumps(plan))

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "STUB": str(self.folder),
            "KUBECONFIG": "/somebody/elses",
            "PULUMI_ACCESS_TOKEN": "secret-of-another-backend",
        }

    def calls(self) -> list[dict[str, Any]]:
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def updates(self) -> list[list[str]]:
        return [call["args"] for call in self.calls() if call["args"][0] != "stack"]


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    return Stub(tmp_path)


MakeRunner = Callable[..., StackRunner]


@pytest.fixture
def make_runner(stub: Stub, tmp_path: Path) -> MakeRunner:
    def make(region: str = "us-east", env: Mapping[str, str] | None = None) -> StackRunner:
        settings = Settings(
            fleet=tmp_path / "fleet.yaml",
            region=region,
            kubeconfig=tmp_path / "kubeconfig",
            options=Options(dra=False),
        )
        return StackRunner(
            layer="serving",
            settings=settings,
            work_dir=tmp_path / "work",
            env=stub.env if env is None else env,
        )

    return make


def test_an_update_says_what_it_changed(stub: Stub, make_runner: MakeRunner) -> None:
    """Counts and outputs come from the engine's own events, without another process."""
    stub.plan(events=[SUMMARY, OUTPUTS])
    result = make_runner().up()
    assert (dict(result.changes), result.changed, dict(result.outputs)) == (
        {"create": 3, "same": 2},
        3,
        {"serial": 4},
    )


def test_what_was_only_read_is_no_change(stub: Stub, make_runner: MakeRunner) -> None:
    """The program looks at what its own stack left, at every update."""
    summary = {"summaryEvent": {"resourceChanges": {"read": 1, "same": 2}}}
    stub.plan(events=[summary])
    assert make_runner().up().changed == 0


def test_what_is_deployed_is_read_without_telling_the_stack_anything(
    stub: Stub, make_runner: MakeRunner, tmp_path: Path
) -> None:
    """From another working copy, whose state lies elsewhere, while an update runs or not."""
    runner = make_runner()
    runner.prepare()
    written = runner.config_file.read_bytes()
    other = replace(
        runner,
        work_dir=tmp_path / "other",
        state=FileState.below(tmp_path / "work"),
        settings=replace(runner.settings, region="us-east"),
    )
    stub.plan(prints='warning: a newer version is there\n{"serial": 4, "releases": {"r-0": "a"}}')
    assert other.outputs() == {"serial": 4, "releases": {"r-0": "a"}}
    call = stub.calls()[-1]
    assert call["args"][:5] == ["stack", "output", "--json", "--stack", "serving-us-east"]
    assert call["env"]["PULUMI_BACKEND_URL"] == (tmp_path / "work/state").as_uri()
    assert not other.config_file.exists()
    assert runner.config_file.read_bytes() == written
    stub.plan(prints="nothing of the kind")
    with pytest.raises(ApplyError, match="its outputs cannot be read"):
        other.outputs()


def test_what_others_have_set_is_taken_back_only_when_it_is_asked_for(
    stub: Stub, make_runner: MakeRunner
) -> None:
    """A conflict says that somebody changed an object: it must not pass unseen."""
    make_runner().up()
    replace(make_runner(), force=True).up()
    asked = [call["env"]["PULUMI_K8S_ENABLE_PATCH_FORCE"] for call in stub.calls()]
    assert asked[-2:] == ["false", "true"]


def test_a_new_stack_is_created_once(stub: Stub, make_runner: MakeRunner) -> None:
    """`up` itself creates nothing when nobody can be asked."""
    make_runner().up()
    make_runner().up()
    assert [call["args"][:2] for call in stub.calls()].count(["stack", "init"]) == 1


def test_settings_are_in_the_stack_file(make_runner: MakeRunner) -> None:
    """Not on the command line, which every user of the machine can read."""
    runner = make_runner()
    runner.prepare()
    config = yaml.safe_load(runner.config_file.read_text())["config"]
    assert config["k3fleet-serving:region"] == "us-east"
    assert config["k3fleet-serving:dra"] is False


def test_what_pulumi_keeps_in_the_stack_file_survives(make_runner: MakeRunner) -> None:
    """Without its salt a stack with secrets cannot be opened again."""
    runner = make_runner()
    runner.prepare()
    kept = {**yaml.safe_load(runner.config_file.read_text()), "encryptionsalt": "v1:abc"}
    runner.config_file.write_text(yaml.safe_dump(kept))
    runner.prepare()
    assert yaml.safe_load(runner.config_file.read_text())["encryptionsalt"] == "v1:abc"


def test_the_callers_own_clusters_and_backends_stay_out(
    stub: Stub, make_runner: MakeRunner
) -> None:
    """A KUBECONFIG in the shell must not decide which cluster is changed."""
    make_runner().up()
    env = stub.calls()[-1]["env"]
    assert "KUBECONFIG" not in env
    assert "PULUMI_ACCESS_TOKEN" not in env


def test_the_passphrase_is_only_for_its_owner(make_runner: MakeRunner, tmp_path: Path) -> None:
    """It opens the state."""
    make_runner().prepare()
    assert stat.S_IMODE((tmp_path / "work/passphrase").stat().st_mode) == 0o600


def test_a_failure_names_cause_and_log(stub: Stub, make_runner: MakeRunner) -> None:
    """The reader must not have to know Pulumi."""
    stub.plan(code=1, events=[failure("namespaces <{%fg 1%}>k3<{%reset%}> not found")])
    runner = make_runner()
    with pytest.raises(ApplyError) as caught:
        runner.up()
    assert "Service/k3/engines: namespaces k3 not found. Correct the cause" in str(caught.value)
    assert str(runner.log) in str(caught.value)


def test_one_cause_is_said_once(stub: Stub, make_runner: MakeRunner) -> None:
    """An API server that is gone fails every object of a region."""
    names = [f"Service/k3/s{number}" for number in range(40)]
    stub.plan(code=255, events=[failure("unreachable", name) for name in names])
    with pytest.raises(ApplyError, match="Service/k3/s0 and 39 more: unreachable"):
        make_runner().up()


def test_a_failure_before_the_engine_is_read_from_the_log(
    stub: Stub, make_runner: MakeRunner
) -> None:
    """The command line can fail without an event, for example on a wrong passphrase."""
    stub.plan(code=255, prints="error: incorrect passphrase")
    with pytest.raises(ApplyError, match="up failed: incorrect passphrase"):
        make_runner().up()


def test_no_value_of_the_environment_is_in_a_message(stub: Stub, make_runner: MakeRunner) -> None:
    """Messages go to terminals, reports and chats."""
    stub.plan(code=1)
    with pytest.raises(ApplyError) as caught:
        make_runner().up()
    assert "secret-of-another-backend" not in str(caught.value)


def test_after_a_failure_the_next_run_looks_at_the_cluster(
    stub: Stub, make_runner: MakeRunner
) -> None:
    """Otherwise it says "unchanged" while what the failed one did is still there."""
    stub.plan(code=1)
    with pytest.raises(ApplyError):
        make_runner().up()
    stub.plan()
    make_runner().up()
    make_runner().up()
    assert ["--refresh" in args for args in stub.updates()] == [False, True, False]


def test_a_preview_does_not_forget_a_failure(stub: Stub, make_runner: MakeRunner) -> None:
    """A look at the plan repairs nothing."""
    stub.plan(code=1)
    with pytest.raises(ApplyError):
        make_runner().up()
    stub.plan()
    make_runner().preview()
    make_runner().up()
    assert "--refresh" in stub.updates()[-1]


def test_one_region_that_fails_does_not_stop_the_other(stub: Stub, make_runner: MakeRunner) -> None:
    """The message names the one that failed."""
    other = replace(make_runner("eu-west"), env={**stub.env, "STUB": str(stub.folder / "eu")})
    (stub.folder / "eu").mkdir()
    (stub.folder / "eu/plan.json").write_text('{"code": 1}')
    with pytest.raises(ApplyError, match=r"^serving-eu-west: up failed") as caught:
        run_together([make_runner(), other], "up")
    assert "us-east" not in str(caught.value)
    assert not make_runner().unclean.exists()


def test_a_teardown_spares_what_is_protected(stub: Stub, make_runner: MakeRunner) -> None:
    """Pulumi would otherwise stop in the middle."""
    make_runner().destroy()
    assert "--exclude-protected" in stub.updates()[-1]


def test_a_missing_pulumi_says_where_to_look(make_runner: MakeRunner) -> None:
    """Not a stack trace of subprocess."""
    with pytest.raises(ToolError, match="k3fleet doctor"):
        make_runner(env={"PATH": "/nowhere"}).up()


def lock(runner: StackRunner, **content: object) -> Path:
    folder = runner.work_dir / "state/.pulumi/locks/organization/k3fleet-serving" / runner.stack
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "1.json"
    file.write_text(json.dumps(content) if content else "{")
    return file


def test_the_lock_of_a_dead_update_is_removed(stub: Stub, make_runner: MakeRunner) -> None:
    """After a power cut nobody should have to learn about lock files."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    said: list[str] = []
    runner = replace(make_runner(), say=said.append)
    file = lock(runner, pid=ended.pid, hostname=socket.gethostname(), username="me")
    runner.up()
    assert not file.exists()
    assert "removed the lock of a dead update" in said[0]
    assert "--refresh" in stub.updates()[-1]


def test_a_number_that_another_program_got_is_no_holder(make_runner: MakeRunner) -> None:
    """Process numbers are given anew: this one is the test runner."""
    runner = make_runner()
    file = lock(runner, pid=os.getpid(), hostname=socket.gethostname())
    runner.up()
    assert not file.exists()


@pytest.mark.parametrize(
    "content", [{"pid": 1, "hostname": "another-machine"}, {}], ids=["elsewhere", "unreadable"]
)
def test_a_lock_that_may_be_alive_is_respected(
    make_runner: MakeRunner, content: dict[str, object]
) -> None:
    """Two updates at once can lose objects."""
    runner = make_runner()
    file = lock(runner, **content)
    with pytest.raises((BusyError, ApplyError), match="remove"):
        runner.up()
    assert file.exists()


def test_a_running_pulumi_of_this_machine_is_respected(stub: Stub, make_runner: MakeRunner) -> None:
    """The usual case: another terminal."""
    sleeper = stub.bin / "pulumi-sleeper"
    sleeper.symlink_to("/bin/sleep")
    with subprocess.Popen([str(sleeper), "60"]) as holder:
        try:
            runner = make_runner()
            wait_until(
                lambda: psutil.Process(holder.pid).name().startswith("pulumi"), "no pulumi runs"
            )
            lock(runner, pid=holder.pid, hostname=socket.gethostname())
            with pytest.raises(BusyError, match=f"an update is running: process {holder.pid}@"):
                runner.up()
        finally:
            holder.kill()


UP = """
import json, sys
from pathlib import Path
from infra.settings import Settings
from infra.stacks import StackRunner
work, env = Path(sys.argv[1]), json.loads(sys.argv[2])
settings = Settings(fleet=work / "f", region="us-east", kubeconfig=work / "k")
StackRunner(layer="serving", settings=settings, work_dir=work / "work", env=env).up()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_update_and_all_it_started(
    stub: Stub, tmp_path: Path, number: signal.Signals
) -> None:
    """An orphan would hold the lock, and a provider was found alive minutes later."""
    stub.plan(hangs=True)
    process = subprocess.Popen(
        [sys.executable, "-c", UP, str(tmp_path), json.dumps(stub.env)], stderr=subprocess.DEVNULL
    )
    try:
        wait_until((stub.folder / "started").exists, "no update has begun")
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
    finally:
        process.kill()
    assert (stub.folder / "interrupted").exists()
    plugin = int((stub.folder / "plugin").read_text())
    wait_until(lambda: not psutil.pid_exists(plugin), "the provider lives on")


def test_a_killed_pulumi_leaves_no_provider(stub: Stub, make_runner: MakeRunner) -> None:
    """Providers are in process groups of their own and do not notice."""
    stub.plan(hangs=True)

    def kill() -> None:
        wait_until((stub.folder / "started").exists, "no update has begun")
        plugin = psutil.Process(int((stub.folder / "plugin").read_text()))
        parent = plugin.parent()
        assert parent is not None
        parent.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ApplyError, match="was killed by signal 9"):
        make_runner().up()
    killer.join()
    plugin = int((stub.folder / "plugin").read_text())
    wait_until(lambda: not psutil.pid_exists(plugin), "the provider lives on")
