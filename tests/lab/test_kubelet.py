"""The process kubelet: a pod is Ready when its process really answers, and ends with it."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from lab_builders import pod
from lab_fakes import FakeApi, FakeStore
from lightkube.resources.core_v1 import ConfigMap

from lab.agent_settings import AgentSettings
from lab.api import typed
from lab.containers import Place
from lab.engines import EngineShape
from lab.events import EventLog, read_events
from lab.kubelet import ProcessKubelet
from lab.lws_templates import LEADER_UID
from lab.mounts import Mounts
from lab.node_context import NodeContext
from lab.pods import PodView
from lab.processes import Launcher, marked
from lab.workloads import workload_of

# A frontend that lists the model from its second question on, and answers chats.
FRONTEND = """
import http.server, json, os
asked = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, body):
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(body).encode())
    def do_GET(self):
        global asked
        asked += 1
        self.reply({"data": [{"id": "kimi"}] if asked > 1 else []})
    def do_POST(self):
        self.reply({"usage": {"completion_tokens": 2}})
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8000), Handler).serve_forever()
"""

SHAPE = EngineShape(
    role="aggregated",
    blocks=1,
    block_size=1,
    max_num_seqs=1,
    max_batched_tokens=1,
    kv_bytes_per_token=1,
)


class Node:
    """A kubelet with a fake API server; `api` holds what it wrote."""

    def __init__(self, folder: Path) -> None:
        self.api, self.store, self.stop = FakeApi(), FakeStore(), threading.Event()
        self.lab_id = uuid.uuid4().hex
        self.settings = AgentSettings(
            lab_id=self.lab_id,
            region="here",
            lab_number=119,
            region_index=uuid.uuid4().int % 16,
            namespace="k3",
            kubeconfig=folder / "kubeconfig",
            folder=folder,
            python=Path(sys.executable),
            envoy=Path("/bin/false"),
            model_dir=folder,
            model_name="kimi",
            tables=folder,
            token_scale=16,
            engines={"r1": {"aggregated": SHAPE}},
            roles={"r": "aggregated"},
            house_engines=frozenset({"own"}),
        )
        launcher = Launcher(lab_id=self.lab_id, log_dir=folder / "logs", environ=dict(os.environ))
        self.context = NodeContext(
            settings=self.settings,
            client=self.api,  # type: ignore[arg-type]
            store=self.store,  # type: ignore[arg-type]
            mounts=Mounts(self.api, "k3"),  # type: ignore[arg-type]
            launcher=launcher,
            events=EventLog(self.settings.events_file, "here", clock=lambda: 1.0),
            kubeconfig_for=lambda _pod: folder / "kubeconfig",
            stop=self.stop,
        )
        self.kubelet = ProcessKubelet(self.context)

    @property
    def processes(self) -> list[psutil.Process]:
        return list(marked(self.lab_id))

    @property
    def told(self) -> list[str]:
        return [event.what for event in read_events(self.settings.events_file)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path)
    yield found
    found.stop.set()
    found.kubelet.wait()
    assert found.processes == []


def frontend() -> PodView:
    container = {
        "name": "main",
        "command": ["python3", "-c", FRONTEND],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "http", "containerPort": 8000}],
    }
    return pod(
        "frontend", labels={"app.kubernetes.io/name": "frontend"}, spec={"containers": [container]}
    )


def test_a_frontend_is_ready_when_it_lists_the_model_and_answers(node: Node):
    """`/health` says 200 with no worker at all: readiness has to ask more."""
    node.store.put(frontend())
    assert node.api.wait(node.api.ready)
    assert [status["conditions"][1]["status"] for _, status in node.api.statuses] == [
        "False",
        "True",
    ]
    assert node.api.statuses[-1][1]["podIP"].startswith("10.119.")


def test_a_killed_process_is_lost_restarted_and_counted(node: Node):
    """As on a real node: the pod stays, unready, and its container starts again."""
    node.store.put(frontend())
    assert node.api.wait(node.api.ready)
    node.processes[0].kill()
    assert node.api.wait(lambda: not node.api.ready())
    assert node.api.wait(node.api.ready)
    assert node.api.statuses[-1][1]["containerStatuses"][0]["restartCount"] == 1
    assert node.told == ["ready", "lost", "ready"]


def test_a_deleted_pod_ends_its_process_and_then_the_object(node: Node):
    """The object must outlive the process: its name and node are free only then."""
    node.store.put(frontend())
    assert node.api.wait(node.api.ready)
    [process] = node.processes
    node.store.put(replace(frontend(), deleting=True))
    assert node.api.wait(lambda: node.api.deleted == ["frontend"])
    assert not process.is_running()
    assert node.told == ["ready"]


def test_a_pod_waits_for_what_it_mounts(node: Node):
    """The order in which objects are applied is nobody's business; what is missing is named."""
    waiting = frontend()
    waiting.spec["volumes"] = [{"name": "policy", "configMap": {"name": "policy-1"}}]
    node.store.put(waiting)
    assert node.api.wait(lambda: "policy-1 is not there" in str(node.api.statuses))
    assert node.processes == []
    node.api.create(typed(ConfigMap, {"metadata": {"name": "policy-1"}, "data": {"a": "1"}}))
    assert node.api.wait(node.api.ready)
    [shown] = node.settings.folder.glob("pods/*/volumes/policy/a")
    assert shown.read_text() == "1"


def test_the_second_pod_of_a_replica_is_ready_without_a_process(node: Node):
    """One mocked engine stands for both pods; real workers have no probe either."""
    node.store.put(pod("r-0-1", labels={"leaderworkerset.sigs.k8s.io/worker-index": "1"}))
    assert node.api.wait(node.api.ready)
    assert node.processes == []


def test_an_engine_waits_for_its_partner(node: Node):
    """Tensor parallelism over two nodes cannot start on one."""
    container = {"name": "main", "env": [{"name": "DYN_NAMESPACE", "value": "x"}]}
    labels = {
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
        "k3fleet.io/release": "r1",
        "k3fleet.io/replica": "r",
    }
    node.store.put(pod("r-0", labels=labels, spec={"containers": [container]}))
    assert node.api.wait(lambda: bool(node.api.statuses))
    assert not node.api.ready()
    assert node.processes == []


def test_an_engine_does_not_start_beside_a_pod_of_the_last_group(node: Node):
    """Its name is the same; it ends soon, and would take the new leader along, again and again."""
    container = {"name": "main", "env": [{"name": "DYN_NAMESPACE", "value": "x"}]}
    labels = {
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
        "k3fleet.io/release": "r1",
        "k3fleet.io/replica": "r",
    }
    leader = pod("r-0", labels=labels, spec={"containers": [container]})
    place = Place(address="127.119.0.10", folder=node.settings.folder)
    store = FakeStore()
    engine = workload_of(leader, place, replace(node.context, store=store))  # type: ignore[arg-type]
    assert engine is not None
    second = pod("r-0-1", annotations={LEADER_UID: "of the leader before"})
    store.put(second)
    assert not engine.may_start()
    store.put(replace(second, annotations={LEADER_UID: leader.uid}))
    assert engine.may_start()
    store.put(replace(second, annotations={LEADER_UID: leader.uid}, deleting=True))
    assert not engine.may_run()


def test_a_release_that_a_rollout_brings_is_known(node: Node):
    """The agent started before it: it looks into its settings when a pod names another one."""
    told = node.settings.model_copy(update={"engines": {"r2": {"aggregated": SHAPE}}})
    assert "r2" not in node.settings.knowing("r2").engines
    told.write()
    assert "r2" in node.settings.knowing("r2").engines
    assert node.settings.knowing("r1") is node.settings


def house_pod(name: str, rank: str, script: str) -> PodView:
    labels = {"leaderworkerset.sigs.k8s.io/worker-index": rank, "k3fleet.io/release": "own"}
    container = {
        "name": "main",
        "command": ["python3", "-c", script],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "http", "containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}},
    }
    return pod(name, labels=labels, spec={"containers": [container]})


def test_both_pods_of_a_house_engine_run_their_command(node: Node):
    """The second has no probe: it counts as ready, and makes no replica one that serves."""
    leader = replace(house_pod("r-0", "0", FRONTEND), address=None)
    node.store.put(leader)
    node.store.put(house_pod("r-0-1", "1", "import signal; signal.pause()"))
    assert node.api.wait(lambda: node.told == ["ready"])
    assert len(node.processes) == 1  # the leader has no address yet in what the API server says
    node.store.put(replace(leader, address="10.119.0.10"))
    assert node.api.wait(lambda: len(node.processes) == 2)
    assert node.api.wait(lambda: node.api.statuses[-1][0] == "r-0-1" and node.api.ready())
    assert node.told == ["ready"]


def test_a_second_pod_that_ends_is_a_loss(node: Node):
    """Tensor parallelism has lost half of its ranks, whatever the leader's probe says."""
    node.store.put(house_pod("r-0", "0", FRONTEND))
    node.store.put(house_pod("r-0-1", "1", "raise SystemExit(3)"))
    assert node.api.wait(lambda: "lost" in node.told)
    [lost] = [e for e in read_events(node.settings.events_file) if e.what == "lost"][:1]
    assert (lost.pod, lost.detail) == ("r-0-1", "process ended with code 3")


def test_a_pod_that_cannot_run_says_why_in_its_condition(node: Node):
    """`kubectl describe` is where an operator looks first."""
    node.store.put(pod("job", labels={"app.kubernetes.io/name": "cleaner"}))
    assert node.api.wait(lambda: "cleaner" in str(node.api.statuses[-1:]))
    assert not node.api.ready()
