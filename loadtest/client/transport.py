"""Open a connection, plain or TLS, whose reads never block and say when their bytes arrived."""

from __future__ import annotations

import _socket
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gevent
from gevent import socket as gevent_socket
from gevent import ssl as gevent_ssl

from fleet.errors import ConfigError
from loadtest.client.arrival import ANCILLARY_BYTES, SO_TIMESTAMPNS, ArrivalClock
from loadtest.client.client_options import ClientOptions
from loadtest.client.readiness import readiness

READ_BYTES = 8_192
"""Most reads bring one event of a few hundred bytes; a larger buffer costs more to have."""
_SEND_BYTES = 65_536
_READABLE, _WRITABLE = 1, 2


class WireError(Exception):
    """Carry the class of a failure below HTTP, as `Record.error` names it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


@cache
def tls_context(ca_file: Path | None) -> Any:
    """Make the one TLS context of a process: reading the authorities takes tens of ms."""
    context = gevent_ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


def check_ca_file(options: ClientOptions) -> None:
    """Read the certificates before the first request needs them. Raises ConfigError."""
    try:
        tls_context(options.ca_file)
    except OSError as error:
        raise ConfigError(
            f"client.ca_file: {options.ca_file}: {error.strerror or error}. "
            "Give a PEM file with the authority's certificates."
        ) from error


class Transport:
    """Hold one open connection. `receive` is called when `watch` calls back."""

    def __init__(self, handle: int, arrivals: ArrivalClock, patience_s: float) -> None:
        # The plain socket of CPython: gevent's, which Locust puts in its place, waits by itself.
        self._socket = _socket.socket(fileno=handle)
        self._socket.setblocking(False)
        self._socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self._socket.setsockopt(_socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._arrivals = arrivals
        self._patience_s = patience_s
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        loop = gevent.get_hub().loop
        self._readable: Any = loop.io(handle, _READABLE)
        self._writable: Any = loop.io(handle, _WRITABLE)

    def start_tls(self, context: Any, host: str) -> None:
        """Shake hands. Raises ssl.SSLError, OSError."""
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                gevent.get_hub().wait(self._readable)
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise ConnectionResetError("closed within the TLS handshake") from None
                self._incoming.write(data)
            else:
                return self._flush()

    def send(self, data: bytes) -> None:
        """Send all, waiting as the network asks. Raises OSError, WireError after too long."""
        if self._tls is None:
            self._send(memoryview(data))
            return
        for start in range(0, len(data), _SEND_BYTES):  # no second copy of megabytes
            self._tls.write(memoryview(data)[start : start + _SEND_BYTES])
            self._flush()

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back, from within the event loop, whenever there is something to receive."""
        readiness().watch(self._socket.fileno(), callback)

    def forget(self) -> None:
        """Do not call back any more."""
        readiness().forget(self._socket.fileno())

    def receive(self) -> tuple[bytes | None, float, float]:
        """Read what is there: bytes, arrival, lateness; b"" = closed, None = nothing yet.

        Raises OSError.
        """
        try:
            data, ancillary, _, _ = self._socket.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return None, 0.0, 0.0
        arrived_s, late_s = self._arrivals.moment(ancillary)
        if self._tls is not None:
            return self._decrypt(data), arrived_s, late_s
        return data, arrived_s, late_s

    def close(self) -> None:
        """Close; safe to call twice."""
        for watcher in (self._readable, self._writable):
            watcher.stop()
            watcher.close()
        self._socket.close()

    def _decrypt(self, data: bytes) -> bytes | None:
        assert self._tls is not None  # noqa: S101 - for the type checker
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        clear: list[bytes] = []
        try:
            while True:
                part = self._tls.read(READ_BYTES)
                if not part:
                    break
                clear.append(part)
        except ssl.SSLWantReadError:
            return b"".join(clear) or None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass
        return b"".join(clear)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send(memoryview(self._outgoing.read()))

    def _send(self, data: memoryview) -> None:
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                late = WireError("timeout_read", "the server stopped reading the request")
                with gevent.Timeout(self._patience_s, late):
                    gevent.get_hub().wait(self._writable)


def connect(
    address: tuple[str, int], options: ClientOptions, arrivals: ArrivalClock, *, tls: bool
) -> Transport:
    """Look up the name, connect and shake hands within one limit. Raises WireError."""
    host, port = address
    limit = gevent.Timeout(options.connect_timeout_s)
    transport = None
    limit.start()
    try:
        transport = Transport(
            gevent_socket.create_connection(address).detach(),
            arrivals,
            options.first_token_timeout_s,
        )
        if tls:
            transport.start_tls(tls_context(options.ca_file), host)
    except BaseException as error:
        if transport is not None:
            transport.close()
        if error is limit:
            seconds = f"{options.connect_timeout_s:g} s"
            raise WireError(
                "timeout_connect", f"no connection to port {port} in {seconds}"
            ) from None
        if isinstance(error, OSError):
            raise _connect_error(error, host, port) from error
        raise
    finally:
        limit.close()
    return transport


def _connect_error(error: OSError, host: str, port: int) -> WireError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return WireError("tls_certificate", f"{host}: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return WireError("tls", f"{host}: {error.reason or error}")
    if isinstance(error, gevent_socket.gaierror):
        return WireError("dns", f"{host}: {error.strerror or error}")
    if isinstance(error, TimeoutError):
        return WireError("timeout_connect", f"no answer from port {port}")
    return WireError("connect", f"{host}:{port}: {error.strerror or error}")
