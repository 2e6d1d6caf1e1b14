"""A gateway in its real Envoy, between a client and two frontends."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dns.message
import dns.rrset
import pytest

from fleet.load import Fleet
from fleet.release import Release, release_id
from infra.gateway import SETS_MOUNT, TRAFFIC_MOUNT
from infra.options import Options
from infra.render import render_region

MODEL = "moonshotai/Kimi-K3"


def envoy_file(fleet: Fleet, options: Options | None = None) -> str:
    [text] = [data["envoy.yaml"] for data in _maps(fleet, options) if "envoy.yaml" in data]
    return str(text)


def sets_files(fleet: Fleet, options: Options | None = None) -> dict[str, str]:
    """Give the files that a gateway reads again when they change."""
    [files] = [data for data in _maps(fleet, options) if "routes.yaml" in data]
    return dict(files)


def _maps(fleet: Fleet, options: Options | None) -> list[dict[str, str]]:
    objects = render_region(fleet, "us-east", "serving", options)
    return [item["data"] for item in objects if item["kind"] == "ConfigMap"]


def on_disk(fleet: Fleet, folder: Path, options: Options) -> str:
    """Make a gateway's volumes in a folder, and give the file that finds them there."""
    show(folder / "sets", sets_files(fleet, options))
    (folder / "traffic").mkdir(exist_ok=True)
    text = envoy_file(fleet, options).replace(SETS_MOUNT, str(folder / "sets"))
    return text.replace(TRAFFIC_MOUNT, str(folder / "traffic"))


def show(folder: Path, files: Mapping[str, str]) -> None:
    """Change the files of a volume as a kubelet does: a new folder, and a link that is renamed."""
    folder.mkdir(exist_ok=True)
    name = f"..{secrets.token_hex(4)}"
    (folder / name).mkdir()
    for key, text in files.items():
        (folder / name / key).write_text(text)
        if not (folder / key).is_symlink():
            (folder / key).symlink_to(Path("..data", key))
    (folder / "..tmp").symlink_to(name)
    (folder / "..tmp").rename(folder / "..data")


def envoy() -> str:
    return shutil.which("envoy", path=str(Path(sys.executable).parent)) or pytest.skip("no Envoy")


@dataclass
class Frontend:
    """A Dynamo frontend, as far as a gateway sees it."""

    address: str
    models: list[str] = field(default_factory=lambda: [MODEL])
    refusals: int = 0  # how many requests it still answers with 503

    def start(self) -> ThreadingHTTPServer:
        frontend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.reply(200, {"data": [{"id": name} for name in frontend.models]})

            def do_POST(self) -> None:
                size = len(self.rfile.read(int(self.headers["Content-Length"])))
                refused = frontend.refusals > 0
                frontend.refusals -= refused
                self.reply(503 if refused else 200, {"by": frontend.address, "size": size})

            def reply(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer((self.address, 8000), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@dataclass
class Rig:
    """A gateway, two frontends, and the name server between them."""

    address: str
    port: int
    frontends: list[Frontend]
    folder: Path
    options: Options
    key: str = "sesame"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def render_sets(self, fleet: Fleet, assignment: Mapping[str, str], *more: Release) -> None:
        """Show the gateway what sets serve now, as an update of the stack does."""
        releases = {release_id(release): release for release in more}
        options = replace(self.options, assignment=assignment, releases=releases)
        show(self.folder / "sets", sets_files(fleet, options))

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        session: str = "",
        **more: str,
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.address, self.port, timeout=10)
        headers = {**more, **({"X-Dynamo-Session-ID": session} if session else {})}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, json.loads(text) if text.startswith(b"{") else text

    def chat(self, session: str, size: int = 10) -> tuple[int, Any]:
        return self.call("POST", "/v1/chat/completions", b"x" * size, session)

    def owner(self, session: str) -> str | None:
        """Say which frontend answers a session; None when none does."""
        status, body = self.chat(session)
        return str(body["by"]) if status == 200 else None

    def wait(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        pause = threading.Event()
        for _ in range(int(seconds / 0.1)):
            try:
                if condition():
                    return
            except OSError:
                pass
            pause.wait(0.1)
        raise AssertionError(f"not in {seconds} s; Envoy said: {self.log.read_text()[-2000:]}")

    def healthy(self) -> bool:
        return self.call("GET", "/healthz")[0] == 200


def name_server(addresses: Callable[[str], list[str]]) -> socket.socket:
    """Answer with the addresses behind a Service's name."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                data, client = server.recvfrom(4096)
            except OSError:
                return
            query = dns.message.from_wire(data)
            answer = dns.message.make_response(query)
            question = query.question[0]
            found = addresses(question.name.to_text().partition(".")[0])
            if question.rdtype == 1 and found:  # A
                answer.answer.append(dns.rrset.from_text(question.name, 0, "IN", "A", *found))
            server.sendto(answer.to_wire(), client)

    threading.Thread(target=serve, daemon=True).start()
    return server


@contextlib.contextmanager
def running(
    fleet: Fleet, folder: Path, change: Callable[[str], str] = lambda text: text, *sets: str
) -> Iterator[Rig]:
    """Start the gateway of a fleet, whose file may be changed to this machine's paths.

    `sets`: the first frontend is of the first of them, and so on; without any, all are of all.
    """
    net = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250) + 1}"
    frontends = [Frontend(address=f"{net}.{host}") for host in (11, 12)]
    servers = [frontend.start() for frontend in frontends]
    both = [frontend.address for frontend in frontends]
    own = {f"frontend-{name}": [at] for name, at in zip(sets, both, strict=False)}
    names = name_server(lambda name: own.get(name, both))
    options = Options(
        gateway_listen=f"{net}.1",
        gateway_admin_port=0,
        dns_server=f"127.0.0.1:{names.getsockname()[1]}",
    )
    (folder / "envoy.yaml").write_text(change(on_disk(fleet, folder, options)))
    with (folder / "log").open("wb") as log:
        argv = [envoy(), "-c", str(folder / "envoy.yaml"), "--disable-hot-restart", "-l", "warning"]
        process = subprocess.Popen([*argv, "--concurrency", "1"], stdout=log, stderr=log)
    try:
        found = Rig(f"{net}.1", 8080, frontends, folder, options)
        found.wait(found.healthy)
        yield found
    finally:
        process.terminate()
        process.wait(timeout=20)
        names.close()
        for server in servers:
            server.shutdown()
