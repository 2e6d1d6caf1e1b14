"""The gateway's file, in the Envoy that runs it."""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dns.message
import dns.rrset
import pytest
import yaml

from fleet.load import Fleet
from infra.options import Options
from infra.render import render_region

MODEL = "moonshotai/Kimi-K3"
MakeFleet = Callable[..., Fleet]


def envoy_file(fleet: Fleet, options: Options | None = None) -> str:
    objects = render_region(fleet, "us-east", "serving", options)
    maps = [item for item in objects if item["kind"] == "ConfigMap"]
    return str(maps[0]["data"]["envoy.yaml"])


def envoy() -> str:
    return shutil.which("envoy", path=str(Path(sys.executable).parent)) or pytest.skip("no Envoy")


@pytest.mark.parametrize("options", [Options(), Options(dns_server="127.0.0.1:53")])
def test_envoy_accepts_the_file_without_a_warning(
    demo: Fleet, tmp_path: Path, options: Options
) -> None:
    """A deprecated field works today and keeps the gateway from starting after an upgrade."""
    path = tmp_path / "envoy.yaml"
    path.write_text(envoy_file(demo, options))
    check = subprocess.run(
        [envoy(), "--mode", "validate", "-c", str(path), "--log-level", "warning"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_no_header_is_logged(demo: Fleet) -> None:
    """Authorization in a log is a leak that stays."""
    manager = yaml.safe_load(envoy_file(demo))["static_resources"]["listeners"][0]
    log = manager["filter_chains"][0]["filters"][0]["typed_config"]["access_log"]
    formats = log[0]["typed_config"]["log_format"]["json_format"].values()
    assert [text for text in formats if "REQ(" in text or "HEADER(" in text] == [
        "%REQUEST_HEADER(:METHOD)%"
    ]


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
    log: Path

    def call(
        self, method: str, path: str, body: bytes | None = None, session: str = ""
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.address, self.port, timeout=10)
        headers = {"X-Dynamo-Session-ID": session} if session else {}
        connection.request(method, path, body, {**headers, "Authorization": "Bearer sesame"})
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


def name_server(addresses: list[str]) -> socket.socket:
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
            if question.rdtype == 1:  # A
                answer.answer.append(dns.rrset.from_text(question.name, 0, "IN", "A", *addresses))
            server.sendto(answer.to_wire(), client)

    threading.Thread(target=serve, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def rig(make_fleet: MakeFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("gateway")
    net = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250) + 1}"
    frontends = [Frontend(address=f"{net}.{host}") for host in (11, 12)]
    servers = [frontend.start() for frontend in frontends]
    names = name_server([frontend.address for frontend in frontends])
    options = Options(
        gateway_listen=f"{net}.1",
        gateway_admin_port=0,
        dns_server=f"127.0.0.1:{names.getsockname()[1]}",
    )
    (folder / "envoy.yaml").write_text(envoy_file(make_fleet(), options))
    with (folder / "log").open("wb") as log:
        argv = [envoy(), "-c", str(folder / "envoy.yaml"), "--disable-hot-restart", "-l", "warning"]
        process = subprocess.Popen([*argv, "--concurrency", "1"], stdout=log, stderr=log)
    try:
        found = Rig(f"{net}.1", 8080, frontends, folder / "log")
        found.wait(found.healthy)
        yield found
    finally:
        process.terminate()
        process.wait(timeout=20)
        names.close()
        for server in servers:
            server.shutdown()


def test_a_session_stays_on_its_frontend(rig: Rig) -> None:
    """A frontend remembers which replica holds the session's cache."""
    by_session = {
        session: Counter(rig.chat(f"session-{session}")[1]["by"] for _ in range(5))
        for session in range(12)
    }
    assert {len(seen) for seen in by_session.values()} == {1}
    assert len({next(iter(seen)) for seen in by_session.values()}) == 2


def test_only_the_api_is_reachable(rig: Rig) -> None:
    """Frontends also serve metrics and switches for administrators."""
    assert [rig.call("GET", path)[0] for path in ("/metrics", "/health", "/")] == [404, 404, 404]


def test_a_large_prompt_is_sent_again_when_it_was_refused(rig: Rig) -> None:
    """A frontend that stops refuses new requests; a million tokens are about 4 MB."""
    first = rig.chat("again")[1]["by"]
    owner = next(item for item in rig.frontends if item.address == first)
    owner.refusals = 1
    status, body = rig.chat("again", size=4_500_000)
    assert (status, body["size"], body["by"] != first) == (200, 4_500_000, True)


def test_a_frontend_without_the_model_gets_no_traffic(rig: Rig) -> None:
    """It answers 200 on /health and an empty list on /v1/models."""
    empty, full = rig.frontends
    empty.models = ["another-model"]
    try:
        rig.wait(lambda: {rig.owner(str(n)) for n in range(12)} == {full.address})
    finally:
        empty.models = [MODEL]
        both = {empty.address, full.address}
        rig.wait(lambda: {rig.owner(str(n)) for n in range(12)} == both)


def test_a_gateway_without_any_model_is_not_ready(rig: Rig) -> None:
    """The load balancer before it can then use another region."""
    for frontend in rig.frontends:
        frontend.models = []
    try:
        rig.wait(lambda: not rig.healthy())
        rig.wait(lambda: rig.chat("x")[0] == 503)
    finally:
        for frontend in rig.frontends:
            frontend.models = [MODEL]
        rig.wait(rig.healthy)


def test_credentials_do_not_reach_the_log(rig: Rig) -> None:
    """Each call here carried the word."""
    rig.chat("y")
    rig.wait(lambda: b"/v1/chat/completions" in rig.log.read_bytes())
    assert b"sesame" not in rig.log.read_bytes()


def test_a_gateway_has_as_many_threads_as_cpus(demo: Fleet) -> None:
    """Envoy alone would start one for each CPU of the node, 144 on a Grace node."""
    objects = render_region(demo, "us-east", "serving", Options())
    [gateway] = [
        o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Deployment", "gateway")
    ]
    container: dict[str, Any] = gateway["spec"]["template"]["spec"]["containers"][0]
    threads = container["args"][container["args"].index("--concurrency") + 1]
    assert threads == container["resources"]["requests"]["cpu"]
