"""Post one request over a kept-alive connection and hand out the body as it arrives.

One `Connection` per session, as a real client has: the socket is gevent's, the HTTP framing is
geventhttpclient's C parser, and nothing waits for a buffer to fill.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import gevent
from gevent import socket as gevent_socket
from gevent import ssl as gevent_ssl
from geventhttpclient.response import HTTPParseError, HTTPResponse

from loadtest.body import Body, with_head

_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Bound the two waits of a request."""

    connect_s: float = 10.0
    read_s: float = 900.0
    """Longest silence: a cold prefill of a million tokens takes minutes."""


class WireError(Exception):
    """Carry the class of a failure below HTTP, as `Record.error` names it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class _StaleConnectionError(Exception):
    """The server had closed a kept-alive connection before it answered anything."""


class _Response(HTTPResponse):
    """Collect the body bytes that one network read brought."""

    def __init__(self) -> None:
        super().__init__(method="POST")
        self.body = bytearray()

    def _on_body(self, buf: bytearray) -> None:
        self.body += buf

    def take(self) -> bytes:
        taken = bytes(self.body)
        self.body.clear()
        return taken


class Exchange:
    """Hold an answer whose head has arrived; iterate for its body, one network read a time."""

    def __init__(self, connection: Connection, response: _Response) -> None:
        self._connection = connection
        self._response = response
        self.status: int = response.status_code

    def __iter__(self) -> Iterator[bytes]:
        """Yield body bytes per network read; keep the connection only if all was read."""
        response = self._response
        try:
            while True:
                if response.body:
                    yield response.take()
                if response.message_complete or not self._connection.receive(response):
                    return
        finally:
            if response.should_close():
                self._connection.close()


class Connection:
    """Keep one HTTP/1.1 connection to a gateway open between the requests of a session."""

    def __init__(self, url: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        host = f"[{self._host}]" if ":" in self._host else self._host
        fixed = {"Host": f"{host}:{self._port}", "Content-Type": "application/json", **headers}
        self._fixed = "".join(f"{name}: {value}\r\n" for name, value in fixed.items())
        self._timeouts = timeouts
        self._socket: Any = None

    @property
    def is_open(self) -> bool:
        """Tell whether the next request finds the connection open, as far as is known."""
        return self._socket is not None

    def post(self, path: str, body: Body | bytes, headers: Mapping[str, str]) -> Exchange:
        """Send one request and wait for the head of its answer.

        A kept-alive connection that the server closed in the meantime is opened anew, once, and
        only while no byte of an answer has come. Raises WireError.
        """
        varying = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = (
            f"POST {self._path}{path} HTTP/1.1\r\n{self._fixed}{varying}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        data = with_head(head.encode("latin-1"), body)
        try:
            return self._exchange(data, reused=self.is_open)
        except _StaleConnectionError:
            return self._exchange(data, reused=False)

    def _exchange(self, data: Body, *, reused: bool) -> Exchange:
        if self._socket is None:
            self._connect()
        response = _Response()
        try:
            self._send(data)
            self._receive_head(response)
        except WireError as error:
            self.close()
            if reused and error.kind == "reset" and not response.message_begun:
                raise _StaleConnectionError from error
            raise
        return Exchange(self, response)

    def _receive_head(self, response: _Response) -> None:
        while not response.headers_complete or response.status_code < 200:
            if not self.receive(response):
                raise WireError("reset", "the server closed the connection without an answer")

    def _send(self, data: Body) -> None:
        try:
            for number, segment in enumerate(data):
                if number:
                    gevent.sleep(0)  # megabytes at once would keep the others waiting
                self._socket.sendall(segment)
        except TimeoutError as error:
            raise WireError("timeout_send", str(error)) from error
        except OSError as error:
            raise WireError("reset", str(error)) from error

    def receive(self, response: _Response) -> bool:
        """Read once from the network into the response; False at the end of the connection."""
        try:
            data = self._socket.recv(_READ_BYTES) if self._socket is not None else b""
            if data:
                response.feed(data)
        except TimeoutError as error:
            self.close()
            raise WireError("timeout_read", f"silent for {self._timeouts.read_s:.0f} s") from error
        except HTTPParseError as error:
            self.close()
            raise WireError("bad_http", str(error)) from error
        except OSError as error:
            self.close()
            raise WireError("reset", str(error)) from error
        return bool(data)

    def _connect(self) -> None:
        try:
            self._socket = gevent_socket.create_connection(
                (self._host, self._port), timeout=self._timeouts.connect_s
            )
            self._socket.setsockopt(gevent_socket.IPPROTO_TCP, gevent_socket.TCP_NODELAY, 1)
            if self._tls:
                context = gevent_ssl.create_default_context()
                self._socket = context.wrap_socket(self._socket, server_hostname=self._host)
            self._socket.settimeout(self._timeouts.read_s)
        except gevent_socket.gaierror as error:
            raise WireError("dns", f"{self._host}: {error}") from error
        except ssl.SSLError as error:
            self.close()
            raise WireError("tls", str(error)) from error
        except TimeoutError as error:
            self.close()
            raise WireError("timeout_connect", f"no answer from port {self._port}") from error
        except OSError as error:
            self.close()
            raise WireError("connect", str(error)) from error

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
