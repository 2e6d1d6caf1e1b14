"""`k3fleet up` with the real engine against a real API server, and what can go wrong under it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from api_planes import Plane, PlaneSpec, running
from cli_runs import K3FLEET
from patience import wait_until
from tcp_proxy import TcpProxy

from cli.wiring import tool_surroundings
from fleet.load import load_fleet
from lab.control_plane import API_PORT
from lab.toolchain import ensure_tools

pytestmark = pytest.mark.lab

# One rack: with its nine replicas an update takes long enough to be cut off in the middle.
FLEET = {
    "apiVersion": "k3fleet/v1",
    "name": "prod",
    "release": "vllm-tp8-dcp8",
    "regions": [{"name": "us-east", "racks": [{"id": "use1-r01"}]}],
}
POLICY = Path(__file__).parents[2] / "infra" / "policy"
PLANTED = "planted-in-the-environment"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "engines", "namespace": "k3"},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "k3"}}


@dataclass
class Site:
    """A fleet file, its work folder, and the cluster of its region."""

    folder: Path
    plane: Plane
    proxy: TcpProxy
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    out: str = ""
    err: str = ""

    @property
    def stacks(self) -> Path:
        return self.folder / ".k3fleet/prod/stacks"

    def start(self, *words: str) -> subprocess.Popen[str]:
        command, *rest = words
        process = subprocess.Popen(
            [K3FLEET, command, "fleet.yaml", *rest],
            cwd=self.folder,
            env={**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig"), "HF_TOKEN": PLANTED},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> int:
        self.out, self.err = process.communicate(timeout=300)
        return process.returncode

    def run(self, *words: str) -> int:
        return self.end(self.start(*words))

    def up(self, *words: str) -> None:
        """Bring the region up, and find nothing to do afterwards."""
        assert self.run("up", "--yes", *words) == 0, self.err
        assert self.run("preview", "--expect-no-changes") == 0, self.out + self.err

    def in_the_middle(self, process: subprocess.Popen[str], steps: int = 5) -> psutil.Process:
        """Wait until some objects of the serving layer are made, and give the engine."""
        events = self.stacks / "serving-us-east/events.raw"

        def begun() -> bool:
            assert process.poll() is None, process.communicate()
            text = events.read_text() if events.exists() else ""
            return self.engine() is not None and text.count('"resOutputsEvent"') >= steps

        wait_until(begun, f"the engine has not made {steps} objects", pause_s=0.1)
        engine = self.engine()
        assert engine is not None
        return engine

    def engine(self) -> psutil.Process | None:
        """Find the process of Pulumi that updates this site."""
        for process in psutil.process_iter():
            try:
                ours = process.name() == "pulumi" and str(self.folder) in process.cwd()
                if ours and "up" in process.cmdline()[:2]:
                    return process
            except (psutil.Error, OSError):
                continue
        return None

    def locks(self) -> list[Path]:
        return list((self.stacks / "state/.pulumi/locks").rglob("*.json"))

    def processes(self) -> list[psutil.Process]:
        """Find what works in this site's folder."""
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.folder) in process.cwd():
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def forget_serving(self) -> None:
        """Take the serving layer down, so that the next update has something to make."""
        assert self.run("destroy", "--layer", "serving", "--yes") == 0, self.err


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Start an API server, and what collects the parts of deleted objects."""
    spec = PlaneSpec(version=(1, 37), kinds="ours")
    with running(spec, tmp_path_factory.mktemp("plane")) as started:
        started.control.start_controllers("garbage-collector-controller")
        yield started


@pytest.fixture(scope="module")
def site(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Bring a region of four racks up, for all tests of this file."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "fleet.yaml").write_text(yaml.safe_dump(FLEET))
    proxy = TcpProxy((plane.control.address, API_PORT))
    config = yaml.safe_load(plane.control.kubeconfig.read_text())
    url = f"https://{plane.control.address}:{proxy.port}"
    config["clusters"][0]["cluster"]["server"] = url
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    made = Site(folder, plane, proxy)
    made.up()
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
    proxy.close()
    left = made.processes()
    for process in left:
        process.kill()
    assert left == []


def test_a_region_is_there_and_stays_as_it_is(site: Site, plane: Plane) -> None:
    """All of it, and a second update has nothing to do."""
    fleet = load_fleet(site.folder / "fleet.yaml")
    assert plane.server.read(SERVICE).accepted
    assert site.run("up", "--yes", "-o", "json") == 0, site.err
    [region] = json.loads(site.out)["regions"]
    for stack in region["stacks"]:
        assert set(stack["changes"]) <= {"same", "read"}, stack
    assert site.run("outputs", "-o", "json") == 0, site.err
    told = json.loads(site.out)
    assert len(told["serving-us-east"]["releases"]) == 9
    assert set(told["serving-us-east"]["releases"].values()) == {fleet.release_id}
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
    assert (
        told["platform-us-east"]["cluster_uid"] == plane.server.read(system).body["metadata"]["uid"]
    )


def test_an_object_that_was_edited_by_hand_is_found_and_put_back(site: Site, plane: Plane) -> None:
    """Whoever edited it is asked first: the API server calls it a conflict."""
    changed = {
        "spec": {"publishNotReadyAddresses": None},
        "metadata": {"labels": {"k3fleet.io/fleet": "x"}},
    }
    assert plane.server.merge(SERVICE, changed).accepted
    assert site.run("preview", "--expect-no-changes") in (1, 7), site.out + site.err
    assert "Service/k3/engines" in site.out + site.err
    assert site.run("up", "--refresh", "--overwrite", "--yes") == 0, site.err
    labels = plane.server.read(SERVICE).body["metadata"]["labels"]
    assert labels["k3fleet.io/fleet"] == "prod"
    assert site.run("preview", "--expect-no-changes") == 0, site.out + site.err


def test_a_refresh_reads_and_changes_nothing(site: Site, plane: Plane) -> None:
    """It is what one does when in doubt."""
    before = plane.server.read(SERVICE).version
    assert site.run("refresh") == 0, site.err
    assert plane.server.read(SERVICE).version == before


def test_plain_pulumi_and_the_command_give_the_same(site: Site) -> None:
    """Whoever knows Pulumi needs nothing of ours."""
    stack = "serving-us-east"
    folder = site.stacks / stack
    env = {
        **os.environ,
        "PATH": f"{tools_folder()}:{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": (site.stacks / "state").as_uri(),
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(site.stacks / "passphrase"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    words = ["--stack", stack, "--non-interactive", "--config-file", f"Pulumi.{stack}.yaml"]
    done = subprocess.run(
        ["pulumi", "up", "--yes", "--expect-no-changes", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert site.run("preview", "--expect-no-changes") == 0, site.out


class Quiet:
    """Progress of a look at tools that are all there."""

    def step(self, name: str) -> None: ...

    def update(self, text: str) -> None: ...


def tools_folder() -> Path:
    cache_dir, environ = tool_surroundings()
    return ensure_tools(cache_dir=cache_dir, environ=environ, progress=Quiet()).bin_dir


def test_our_own_policies_let_our_own_objects_pass(site: Site) -> None:
    """The pack runs over every plan, in the engine."""
    assert site.run("preview", "--policy-pack", str(POLICY)) == 0, site.out + site.err
    log = (site.stacks / "serving-us-east/pulumi.log").read_text()
    assert "Policies:" in log, log


def kill_engine(site: Site, process: subprocess.Popen[str], engine: psutil.Process) -> None:
    engine.kill()
    assert site.end(process) == 7, site.err
    assert "killed by signal 9" in site.err
    # What one kill in some hundreds leaves: it writes this anew before each checkpoint.
    [torn] = (site.stacks / "state/.pulumi/stacks/k3fleet-serving").glob("serving-*.json.attrs")
    torn.write_bytes(b"")


def kill_command(site: Site, process: subprocess.Popen[str], engine: psutil.Process) -> None:
    engine.suspend()  # so that it is still there when we look
    process.kill()
    site.end(process)
    assert site.run("up", "--yes") == 9
    assert f"process {engine.pid}@{socket.gethostname()}" in site.err
    children = engine.children(recursive=True)
    for one in (engine, *children):
        one.kill()
    psutil.wait_procs([engine, *children], timeout=30)


def interrupt(number: signal.Signals) -> Callable[..., None]:
    def send(site: Site, process: subprocess.Popen[str], engine: psutil.Process) -> None:
        process.send_signal(number)
        assert site.end(process) in (130, -number), site.err
        assert not engine.is_running()
        assert site.locks() == []

    return send


def lose_the_api_server(site: Site, process: subprocess.Popen[str], engine: psutil.Process) -> None:
    del engine
    site.proxy.cut()
    try:
        assert site.end(process) == 7, site.err
        assert site.run("refresh") == 11
        assert "does not answer" in site.err
    finally:
        site.proxy.mend()


@pytest.mark.parametrize(
    "accident",
    [
        pytest.param(interrupt(signal.SIGINT), id="SIGINT"),
        pytest.param(interrupt(signal.SIGTERM), id="SIGTERM"),
        pytest.param(kill_engine, id="SIGKILL of the engine"),
        pytest.param(kill_command, id="SIGKILL of the command"),
        pytest.param(lose_the_api_server, id="API server lost"),
    ],
)
def test_after_an_accident_the_next_update_brings_all_in_order(
    site: Site, accident: Callable[..., None]
) -> None:
    """No lock, no process and no object of the half update stands in its way."""
    site.forget_serving()
    process = site.start("up", "--yes")
    engine = site.in_the_middle(process)
    accident(site, process, engine)
    site.up()
    assert site.locks() == []
    assert site.run("doctor", "--stacks") == 0, site.out


def test_of_two_updates_at_once_one_is_refused(site: Site) -> None:
    """With whose it is and for how long, and exit code 9."""
    site.forget_serving()
    first = site.start("up", "--yes")
    engine = site.in_the_middle(first, steps=1)
    engine.suspend()  # so that it is not over when the other one looks
    try:
        assert site.run("up", "--yes") == 9
        assert f"process {first.pid}@{socket.gethostname()}" in site.err
    finally:
        engine.resume()
    assert site.end(first) == 0, site.err


def test_another_cluster_is_refused(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Before anything is touched there, or forgotten here."""
    spec = PlaneSpec(version=(1, 37), kinds="lab")
    with running(spec, tmp_path_factory.mktemp("other")) as other:
        kubeconfig = str(other.control.kubeconfig)
        for command in (["up", "--yes"], ["refresh"], ["destroy", "--yes"]):
            assert site.run(*command, "--kubeconfig", kubeconfig) == 11, site.err
            assert "its stack is of cluster" in site.err
        assert not other.server.read(NAMESPACE).accepted
    assert site.run("preview", "--expect-no-changes") == 0, site.out + site.err


def test_a_planted_secret_is_in_no_file(site: Site) -> None:
    """Neither in the state, nor in a log, nor in the kept events."""
    files = [file for file in (site.folder / ".k3fleet").rglob("*") if file.is_file()]
    assert len(files) > 10
    assert [str(file) for file in files if PLANTED.encode() in file.read_bytes()] == []


def test_a_teardown_leaves_only_what_is_protected(site: Site, plane: Plane) -> None:
    """The namespace and the racks' domains outlive it."""
    assert site.run("destroy", "--yes") == 0, site.err
    state: dict[str, Any] = {}
    for file in (site.stacks / "state/.pulumi/stacks").rglob("*.json"):
        state |= {
            item["urn"].rpartition("::")[2]: item
            for item in json.loads(file.read_text())["checkpoint"]["latest"].get("resources", [])
            if item["type"].startswith("kubernetes:") and not item.get("external")
        }
    kinds = {name.partition("/")[0] for name in state}
    assert kinds == {"Namespace", "ComputeDomain", "CustomResourceDefinition"}
    assert all(item["protect"] for item in state.values())
    assert plane.server.read(NAMESPACE).accepted
    assert not plane.server.read(SERVICE).accepted
