"""Stand for the API server of a cluster, as far as provisioning looks into one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml


@dataclass
class FakeCluster:
    """Objects by path; what is not there is a 404."""

    url: str
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    allows: bool = True  # whatever is asked about

    def namespace(self, name: str, **labels: str) -> None:
        """Have a namespace; kube-system's uid is the cluster's identity."""
        marks = {f"k3fleet.io/{key}": value for key, value in labels.items()}
        metadata = {"name": name, "uid": f"uid-of-{name}", "labels": marks}
        self.objects[f"/api/v1/namespaces/{name}"] = {"metadata": metadata}

    def kubeconfig(self, file: Path, context: str = "here") -> Path:
        """Write a kubeconfig that leads here."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
        }
        file.write_text(yaml.safe_dump(content))
        return file


@contextmanager
def fake_cluster() -> Iterator[FakeCluster]:
    """Serve a cluster that has its kube-system."""
    found: list[FakeCluster] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            item = found[0].objects.get(self.path.partition("?")[0])
            body = item or {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}
            self.send_response(200 if item else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked = self.path.endswith("/selfsubjectaccessreviews")
            body = {"spec": {}, "status": {"allowed": found[0].allows}}
            self.send_response(201 if asked else 405)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of http.server
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.append(FakeCluster(f"http://127.0.0.1:{server.server_address[1]}"))
    found[0].namespace("kube-system")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
