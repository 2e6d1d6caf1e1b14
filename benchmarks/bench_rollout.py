"""Measure what a rollout costs at 1,800 replicas, each beside a rival that does it naively.

- `rollout plan` of 200 racks, the whole command; rival: `yaml.safe_load` of the fleet file.
- what the cluster says for `rollout status`; rival: one request for each replica, as a loop
  around `kubectl get` makes them. An HTTP server stands for the API server: the objects are as
  many and as large as real ones, and it answers at once.
- one phase of a driver at the end of a record; rival: read, fold and pack the record anew.

The command is measured in CPU seconds, which are its own however busy the machine is.
Run it with `python benchmarks/bench_rollout.py`. Ratios are comparable between machines, seconds
are not.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml
from bench_plan import REPEATS, best_s, fleet_text
from lightkube.resources.core_v1 import Pod

from fleet.rollout.record import Began
from infra.rollout.cluster import Cluster
from infra.rollout.journal import Journal
from infra.rollout.ledger import Packer
from infra.rollout.standings import standings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from rollout_large import REPLICAS, large_record

PLAN_LIMIT_S, STATUS_LIMIT_S = 2.0, 3.0
RIVALS_SHARE = 20  # of the replicas one in so many is asked, since asking all takes a minute
FILLER = {"env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(60)]}
Row = tuple[str, float, float, float | None]  # name, ours, the rival's, limit of ours


def pod(number: int, *, leader: bool) -> dict[str, Any]:
    """Give a pod as an API server does: about 6 KB."""
    replica = f"use{number // 9}-r01-{number % 9}"
    name = f"{replica}-0" if leader else f"{replica}-0-1"
    labels = {
        "k3fleet.io/replica": replica,
        "k3fleet.io/rack": f"use{number // 9}-r01",
        "k3fleet.io/release": "old-1",
        "k3fleet.io/routed": "true",
        "leaderworkerset.sigs.k8s.io/worker-index": "0" if leader else "1",
    }
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"nodeName": f"node-{number}", "containers": [{"name": "main", **FILLER}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def answers() -> dict[str, bytes]:
    """Give what the API server says to each path, without its query."""
    leaders = [pod(n, leader=True) for n in range(REPLICAS)]
    seconds = [pod(n, leader=False) for n in range(REPLICAS)]
    names = [item["metadata"]["name"] for item in leaders]
    endpoints = [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": True}, "targetRef": {"name": name}}
        for name in names
    ]
    slices = [
        {"metadata": {"name": f"s{start}"}, "addressType": "IPv4", "endpoints": part}
        for start in range(0, REPLICAS, 100)
        for part in [endpoints[start : start + 100]]
    ]
    generate = {"endpoint": "generate", "instance_id": 7}
    data = {"endpoints": {"e": generate}, "model_cards": {"e": {"card_json": {}}}}
    workers = [{"metadata": {"name": name}, "spec": {"data": data}} for name in names]
    core, apis = "/api/v1/namespaces/k3/pods", "/apis"
    lists = {
        core: [*leaders, *seconds],
        f"{apis}/discovery.k8s.io/v1/namespaces/k3/endpointslices": slices,
        f"{apis}/nvidia.com/v1alpha1/namespaces/k3/dynamoworkermetadatas": workers,
    }
    found = {path: json.dumps({"metadata": {}, "items": items}) for path, items in lists.items()}
    found |= {f"{core}/{item['metadata']['name']}": json.dumps(item) for item in leaders}
    return {path: text.encode() for path, text in found.items()}


@contextmanager
def api_server(folder: Path) -> Iterator[Cluster]:
    """Serve the objects, and give the cluster that leads there."""
    said = answers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body together: in two, each answer would wait for an ACK

        def do_GET(self) -> None:
            data = said[self.path.partition("?")[0]]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    file = folder / "kubeconfig"
    address = f"http://127.0.0.1:{server.server_address[1]}"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(config))
    try:
        yield Cluster(region="a", kubeconfig=file, namespace="k3")
    finally:
        server.shutdown()
        server.server_close()


def plan_row(folder: Path) -> Row:
    """Measure the plan of 200 racks."""
    path = folder / "fleet.yaml"
    path.write_text(fleet_text())
    command = [sys.executable, "-m", "cli.main", "rollout", "plan", str(path), "vllm-tp8"]
    # As on any machine that keeps compiled modules; the first run makes them.
    environ = {key: value for key, value in os.environ.items() if "BYTECODE" not in key}

    def command_cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environ)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    ours = min(command_cpu_s() for _ in range(REPEATS))
    rival = best_s(lambda: yaml.safe_load(path.read_text()))
    return "rollout plan, 200 racks (rival: safe_load)", ours, rival, PLAN_LIMIT_S


def status_row(folder: Path) -> Row:
    """Measure what `rollout status` asks, and the record behind it."""
    path = folder / "0001.jsonl"
    entries = list(large_record())
    path.write_bytes(b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries))

    def status(cluster: Cluster) -> None:
        assert len(standings([cluster])) == REPLICAS
        assert Journal(path).state().status == "done"

    def naive(cluster: Cluster) -> None:
        for number in range(REPLICAS // RIVALS_SHARE):
            cluster.client.get(Pod, f"use{number // 9}-r01-{number % 9}-0")

    with api_server(folder) as cluster:
        ours = best_s(lambda: status(cluster))
        rival = timed(lambda: naive(cluster)) * RIVALS_SHARE
    return "rollout status, 1,800 replicas (rival: a get each)", ours, rival, STATUS_LIMIT_S


def phase_row(folder: Path) -> Row:
    """Measure what a driver does around one phase, when the record is long."""
    *entries, last = large_record()
    path = folder / "0002.jsonl"
    path.write_bytes(b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries))
    journal, packer = Journal(path), Packer()
    journal.state()
    packer.pack(entries)
    began = Began(at_s=last.at_s, phase="soak")

    def phase() -> None:
        """Write an entry, and look where that leads."""
        packer.pack([*journal.read(), began.model_copy(update={"at_s": time.monotonic()})])
        journal.state()

    def naive() -> None:
        Packer().pack([*Journal(path).read(), began])
        Journal(path).state()

    return "a phase at 1,800 steps (rival: all anew)", best_s(phase), timed(naive), None


def timed(action: Callable[[], object]) -> float:
    """Say how long it takes, once: rivals are slow."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> int:
    """Print the times and the ratios to the rivals; 1 when a limit is passed."""
    late = False
    with tempfile.TemporaryDirectory() as name:
        for row in (plan_row, status_row, phase_row):
            text, ours, rival, limit = row(Path(name))
            told = f"limit {limit:.0f} s" if limit else ""
            print(f"{text:<52} {ours:7.3f} s  rival {rival:7.3f} s  {ours / rival:6.3f}  {told}")
            late = late or (limit is not None and ours > limit)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
