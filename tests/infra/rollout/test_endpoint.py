"""The way to a pod: at its own address, or through the API server, and never without an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from fake_cluster import FakeCluster

from fleet.errors import ApplyError
from infra.rollout.cluster import Cluster
from infra.rollout.endpoint import MOST_BYTES

PROXY = "/api/v1/namespaces/k3/pods/r01-0-0:9090/proxy"
Answer = Callable[[str], tuple[int, bytes]]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answer(self.path)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def read(tmp_path: Path, answer: Answer) -> str | None:
    """Read a pod's page through an API server that answers so."""
    with answering(answer) as url:
        kubeconfig = FakeCluster(url).kubeconfig(tmp_path / "kubeconfig")
        cluster = Cluster(region="east", kubeconfig=kubeconfig, namespace="k3")
        return cluster.endpoint("r01-0-0", "10.1.2.3", 9090).page("/metrics")


def test_a_pod_is_asked_through_the_api_server(tmp_path: Path) -> None:
    """By its name; nothing outside of the cluster gets to its address."""
    asked = []

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        return 200, b"a_metric 1"

    assert read(tmp_path, answer) == "a_metric 1"
    assert asked == [f"{PROXY}/metrics"]


def test_who_may_not_ask_is_told_so(tmp_path: Path) -> None:
    """Else every replica would seem to be silent, and every drain take its whole budget."""
    status = {"kind": "Status", "reason": "Forbidden", "code": 403}
    body = json.dumps(status, separators=(",", ":")).encode()
    with pytest.raises(ApplyError, match="pods/proxy"):
        read(tmp_path, lambda _path: (403, body))


@pytest.mark.parametrize(
    "answer", [(403, b"not for you"), (503, b""), (200, b"x" * (MOST_BYTES + 1))]
)
def test_a_pod_that_does_not_answer_well_has_no_page(
    tmp_path: Path, answer: tuple[int, bytes]
) -> None:
    """One of it must not stop a rollout by itself, nor fill the driver's memory."""
    assert read(tmp_path, lambda _path: answer) is None
