"""The lab by hand: what `k3fleet lab up` leaves is used with kubectl and pulumi like a cluster."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_runs import Here
from patience import wait_until

from verify.smoke import listed_models

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
ONE_REPLICA = """\
apiVersion: k3fleet/v1
name: one
release: vllm-tp8-dcp8
frontends: {replicas: 1}
regions:
  - name: here
    racks:
      - {id: r01, replicas: 1}
"""


@pytest.fixture
def lab(here: Here) -> Any:
    """Bring a lab of one replica up."""
    fleet = here.folder / "fleet.yaml"
    fleet.write_text(ONE_REPLICA)
    ended = here.run("lab", "up", str(fleet), "-o", "json")
    assert ended.code == 0, ended.err
    yield json.loads(ended.out)
    assert here.run("lab", "down", str(fleet)).code == 0


def by_hand(lab: dict[str, Any], command: str) -> str:
    """Run a command in a shell that has read the lab's env file."""
    script = f". {shlex.quote(lab['env_file'])} && {command}"
    done = subprocess.run(
        ["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_second_up_by_hand_changes_nothing(lab: dict[str, Any]):
    """Plain `pulumi up` and the command line must want the same."""
    region = lab["regions"]["here"]
    stack = f"--stack {region['serving_stack']} --config-file {region['stack_config']}"
    said = by_hand(
        lab, f"pulumi -C infra/serving up {stack} --yes --non-interactive --expect-no-changes"
    )
    assert "unchanged" in said


def test_kubectl_sees_the_replica_and_its_nodes(lab: dict[str, Any], here: Here):
    """What the API server shows is what an operator will see on the day."""
    kubeconfig = lab["regions"]["here"]["kubeconfig"]
    text = by_hand(lab, f"kubectl --kubeconfig {kubeconfig} -n k3 get lws,pods -o json")
    items = json.loads(text)["items"]
    sets = [item for item in items if item["kind"] == "LeaderWorkerSet"]
    assert [(s["metadata"]["name"], s["status"]["readyReplicas"]) for s in sets] == [("r01-0", 1)]
    nodes = {
        item["spec"]["nodeName"]
        for item in items
        if item["kind"] == "Pod" and item["metadata"]["name"].startswith("r01-0-0")
    }
    assert len(nodes) == 2
    assert all(node.startswith("r01-n") for node in nodes)
    # A mounted file follows its ConfigMap, as with any kubelet.
    [(shown, text)] = [(p, p.read_text()) for p in here.folder.rglob("root/etc/envoy/envoy.yaml")]
    [volume] = [v for i in items for v in i["spec"].get("volumes", ()) if v["name"] == "config"]
    patch = json.dumps({"data": {"envoy.yaml": text + "# by hand\n"}})
    name = volume["configMap"]["name"]
    by_hand(
        lab,
        f"kubectl --kubeconfig {kubeconfig} -n k3 patch configmap {name} --type merge "
        f"-p {shlex.quote(patch)}",
    )
    wait_until(lambda: shown.read_text().endswith("# by hand\n"), "the change is not seen")


def test_a_replica_that_hangs_leaves_the_router_and_comes_back(lab: dict[str, Any], here: Here):
    """NotReady has to reach the router: else sessions wait at an engine that does not answer."""
    url = lab["regions"]["here"]["gateway_url"]
    assert listed_models(url)
    [engine] = here.processes("dynamo.mocker")
    engine.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: not listed_models(url), "the model is still listed", pause_s=0.2)
    finally:
        engine.send_signal(signal.SIGCONT)
    wait_until(lambda: listed_models(url), "the model is not back", pause_s=0.2)
    assert psutil.pid_exists(engine.pid)


def test_a_lab_that_is_up_is_not_started_twice(lab: dict[str, Any], here: Here):
    """Somebody may be working in it."""
    again = here.run("rehearse", str(here.folder / "fleet.yaml"))
    assert again.code == 3
    assert "lab down" in again.err


def test_a_taken_gateway_port_is_named_and_nothing_is_left(here: Here):
    """A developer's server on port 8080 is the usual reason."""
    fleet = here.fleet()
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))  # noqa: S104 - that is the case under test
        taken.listen()
        port = taken.getsockname()[1]
        fleet.write_text(fleet.read_text() + f"gateway: {{port: {port}}}\n")
        ended = here.run("rehearse", str(fleet))
    assert ended.code == 6
    assert f":{port}: the port is in use" in ended.err
    assert here.processes() == []
