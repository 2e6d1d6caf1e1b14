"""S3 stores on loopback: moto and ministack as processes, and a proxy that counts and breaks.

moto takes wrong checksums and conditions of part copies for right; ministack checks MD5 and
refuses the CRC-64/NVME of a whole multipart object even when it is right. So the one is asked with
`checksum: crc64nvme`, the other with `md5`, and neither is believed.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

# The least size of a part is 5 MiB; the tests send small ones.
MOTO = """
import sys
import moto.s3.models
moto.s3.models.S3_UPLOAD_PART_MIN_SIZE = 1
from moto.server import main
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
"""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
CHECKSUM = {"moto": "crc64nvme", "ministack": "md5"}


@contextmanager
def s3_server(kind: str, folder: Any) -> Iterator[str]:
    """Run a store until the block ends; give its address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    env = {**os.environ, "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "s3"}
    command = [sys.executable, "-c", MOTO, str(port)]
    if kind == "ministack":
        command = [sys.executable, "-m", "ministack"]
    with (folder / f"{kind}.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)
    try:
        _wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 300  # a busy machine takes a minute to import moto
    while time.monotonic() < limit and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"the store does not listen on {port}")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request that came to the proxy."""

    number: int
    method: str
    bucket: str
    key: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    @property
    def what(self) -> str:
        """Name the operation, as far as the tests tell them apart."""
        if "x-amz-copy-source" in self.headers:
            return "copy part"
        if self.method == "PUT":
            return "part" if "partNumber" in self.query else "put"
        if self.method == "POST":
            return "begin" if "uploads" in self.query else "complete"
        if self.method == "GET" and self.key:
            return "parts" if "uploadId" in self.query else "read"
        return self.method.lower() if self.key else "list"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is answered instead of, or after, what the store would do."""

    status: int = 503
    code: str = "SlowDown"
    after: bool = False  # the store has done it, and the answer is lost
    cut_at: int | None = None  # the body ends here, although more was announced
    drop: bool = False  # the connection is closed without an answer


Rule = Callable[[Asked], Fault | None]


@dataclass
class Proxy:
    """Stands before a store: counts what is asked, and breaks what a rule says."""

    target: str
    rule: Rule = lambda _asked: None
    asked: list[Asked] = field(default_factory=list)
    moved_bytes: int = 0  # of bodies that went out
    url: str = ""
    lock: Lock = field(default_factory=Lock)

    def count(self, what: str, bucket: str | None = None) -> int:
        """Count the requests of one kind."""
        return len([one for one in self.asked if one.what == what and bucket in (None, one.bucket)])

    def forget(self) -> None:
        """Count anew."""
        self.asked.clear()
        self.moved_bytes = 0


@contextmanager
def proxy(target: str, rule: Rule = lambda _asked: None) -> Iterator[Proxy]:
    """Run a proxy until the block ends."""
    made = Proxy(target=target, rule=rule)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    # Shut down after each test: it looks that often whether it should.
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def _handler(made: Proxy) -> type[BaseHTTPRequestHandler]:
    host = urlsplit(made.target).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            with suppress(ConnectionError):
                self._answer()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - http.server's names

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = made.rule(self._asked())
            if fault is None:
                self._reply(*self._forward(body))
                return
            if fault.after or fault.cut_at is not None:
                status, headers, content = self._forward(body)
                if fault.cut_at is not None:
                    self._reply(status, headers, content, fault.cut_at)
                    return
            if fault.drop:
                self.close_connection = True
                return
            text = f"<Error><Code>{fault.code}</Code><Message>asked for</Message></Error>"
            self._reply(fault.status, {"Content-Type": "application/xml"}, text.encode())

        def _asked(self) -> Asked:
            parts = urlsplit(self.path)
            bucket, _, key = parts.path.lstrip("/").partition("/")
            with made.lock:
                asked = Asked(
                    number=len(made.asked) + 1,
                    method=self.command,
                    bucket=bucket,
                    key=key,
                    query=parse_qs(parts.query, keep_blank_values=True),
                    headers={name.lower(): value for name, value in self.headers.items()},
                )
                made.asked.append(asked)
            return asked

        def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection(host, timeout=60)
            headers = {
                name: value for name, value in self.headers.items() if name.lower() != "expect"
            }
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            with made.lock:
                made.moved_bytes += len(content)
            return answer.status, dict(answer.getheaders()), content

        def _reply(
            self, status: int, headers: dict[str, str], content: bytes, cut_at: int | None = None
        ) -> None:
            self.send_response_only(status)
            hop = ("transfer-encoding", "connection", "content-length")
            for name, value in headers.items():
                if name.lower() not in hop:
                    self.send_header(name, value)
            lengths = {name.lower(): value for name, value in headers.items()}
            is_head = self.command == "HEAD"
            length = lengths.get("content-length", "0") if is_head else str(len(content))
            self.send_header("Content-Length", length)
            self.end_headers()
            if not is_head:
                self.wfile.write(content[:cut_at])
            if cut_at is not None:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    return Handler
