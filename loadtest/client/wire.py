"""Post one request over a kept-alive connection and hand on the answer as it arrives.

One `Connection` per session, as a real client has. The HTTP framing is geventhttpclient's C parser;
bytes are read where the event loop finds them ready, without a switch to the session's greenlet,
which sleeps until its answer is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from time import perf_counter, time
from typing import Any, Protocol
from urllib.parse import urlsplit

import gevent
from gevent.event import Event
from geventhttpclient._parser import HTTPResponseParser
from geventhttpclient.response import HTTPParseError, HTTPResponse

from loadtest.client.arrival import ArrivalClock, Clock
from loadtest.client.client_options import ClientOptions
from loadtest.client.secret import bearer_of
from loadtest.client.transport import Transport, WireError, connect
from loadtest.prompt.body import Body, with_head

__all__ = ["Connection", "Reader", "WireError"]


class Reader(Protocol):
    """Take an answer. Called within the event loop: it must not wait."""

    @property
    def deadline_s(self) -> float:
        """Give the moment after which the answer is given up; it may move while it comes."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head, names in lower case."""

    def read(self, chunk: bytes, arrived_s: float, late_s: float) -> bool:
        """Take the body bytes of one network read; True = enough, hang up."""


class _Response(HTTPResponse):
    """Collect what one network read brought; interim answers (1xx) are passed over."""

    def __init__(self) -> None:
        super().__init__(method="POST")
        self.body: list[bytes] = []
        self._begins_another = False

    @property
    def is_final(self) -> bool:
        """Tell whether the head of the real answer is there."""
        return bool(self.headers_complete and self.status_code >= 200)

    def should_close(self) -> bool:
        """Tell whether the connection is of no use: what followed the answer belongs to none."""
        return bool(self._begins_another or super().should_close())

    def feed(self, data: str | bytes) -> None:
        """Take bytes. Raises HTTPParseError, but not for bytes after the end of the answer."""
        try:
            HTTPResponseParser.feed(self, data)  # what HTTPResponse adds is for HEAD
        except HTTPParseError:
            if not self._begins_another:
                raise

    def _on_message_begin(self) -> None:
        if self.is_final and self.message_complete:
            self._begins_another = True
            raise HTTPParseError("bytes after the end of the answer")
        super()._on_message_begin()

    def _on_body(self, buf: bytearray) -> None:
        self.body.append(bytes(buf))

    def take(self) -> bytes:
        """Give what came since the last call."""
        body = self.body
        taken = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        return taken

    def head(self) -> dict[str, str]:
        """Give the headers, names in lower case; of repeated ones the first."""
        return {name.lower(): str(value) for name, value in reversed(list(self.items()))}


class _Exchange:
    """Feed one answer to its reader from within the event loop."""

    def __init__(self, transport: Transport, reader: Reader) -> None:
        self._transport = transport
        self._reader = reader
        self._response = _Response()
        self._begun = False
        self.failure: BaseException | None = None
        self.ended = Event()
        self.keeps_connection = False
        self.head_since_s = inf
        """Since when a head is there in part; never, while none has begun."""
        self._head_bytes = 0

    @property
    def answered(self) -> bool:
        """Tell whether any byte of an answer has come."""
        return bool(self._response.message_begun)

    def on_readable(self) -> None:
        """Read once. Nothing may be raised into the event loop: it ends up in `failure`."""
        try:
            if self._read():
                self.ended.set()
        except HTTPParseError as error:
            self._end(WireError("bad_http", str(error)))
        except OSError as error:
            self._end(WireError("reset", error.strerror or str(error)))
        except BaseException as error:
            self._end(error)

    def _end(self, failure: BaseException) -> None:
        self.failure = failure
        self.ended.set()

    def _read(self) -> bool:
        """Read what is there; tell whether the answer is over."""
        data, arrived_s, late_s = self._transport.receive()
        if data is None:
            return False
        response = self._response
        if not data:
            self._closed()
            return True
        broken = None
        try:
            response.feed(data)
        except HTTPParseError as error:
            broken = error
        if not self._begun:
            self._look_at_head(len(data), arrived_s)
        if not self._begun and response.is_final:
            self._begun = True
            self._reader.begin(response.status_code, response.head())
        enough = False
        if response.body:  # what came whole before the damage counts
            enough = self._reader.read(response.take(), arrived_s, late_s)
        if broken is not None:
            raise broken
        if response.message_complete and self._begun:
            self.keeps_connection = not response.should_close()
            return True
        return enough

    def _look_at_head(self, size: int, arrived_s: float) -> None:
        """Note how long a head takes; interim answers are heads of their own."""
        if self._response.headers_complete:
            self.head_since_s = inf
        else:
            self.head_since_s = min(self.head_since_s, arrived_s)
        self._head_bytes += size
        if self._head_bytes > _MOST_HEAD_BYTES and not self._response.is_final:
            raise WireError("bad_http", f"a head of more than {_MOST_HEAD_BYTES:,} bytes")

    def _closed(self) -> None:
        response = self._response
        framed = "content-length" in response or "transfer-encoding" in response
        if not self._begun:
            self.failure = WireError("reset", "the server closed the connection without an answer")
        elif framed:
            self.failure = WireError("reset", "the server closed the connection within its answer")


class Connection:
    """Keep one HTTP/1.1 connection to a gateway open between the requests of a session."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        options: ClientOptions | None = None,
        clock: Clock = perf_counter,
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        host = f"[{self._host}]" if ":" in self._host else self._host
        fixed = {"Host": f"{host}:{self._port}", "Content-Type": "application/json", **headers}
        self._fixed = "".join(f"{name}: {value}\r\n" for name, value in fixed.items())
        self.secret = bearer_of(headers)
        self.options = options or ClientOptions()
        self._clock = clock
        self._arrivals = ArrivalClock(clock, time)
        self._transport: Transport | None = None
        self.connect_s = 0.0
        """How long the last request waited for a new connection; 0 over a kept one."""

    @property
    def is_open(self) -> bool:
        """Tell whether the next request finds the connection open, as far as is known."""
        return self._transport is not None

    def post(
        self, path: str, body: Body | bytes, headers: Mapping[str, str], reader: Reader
    ) -> int:
        """Send one request, feed its answer to the reader; give the number of retries.

        A kept-alive connection that the server closed in the meantime is opened anew, once, and
        only while no byte of an answer has come. Raises WireError.
        """
        varying = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = (
            f"POST {self._path}{path} HTTP/1.1\r\n{self._fixed}{varying}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        data = with_head(head.encode("latin-1"), body)
        reused = self.is_open
        self.connect_s = 0.0
        if self._exchange(data, reader, reused=reused):
            return 0
        self._exchange(data, reader, reused=False)
        return 1

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _exchange(self, data: Body, reader: Reader, *, reused: bool) -> bool:
        """Send and read; False = the kept connection was closed before anything was answered."""
        transport = self._transport or self._connect()
        exchange = _Exchange(transport, reader)
        keep = False
        try:
            transport.watch(exchange.on_readable)
            whole = self._send(transport, data, exchange)
            self._wait(exchange, reader)
            if exchange.failure is not None:
                if reused and _is_stale(exchange):
                    return False
                raise exchange.failure
            keep = whole and exchange.keeps_connection
        finally:
            transport.forget()
            if not keep:
                self.close()
        return True

    def _connect(self) -> Transport:
        started_s = self._clock()
        address = (self._host, self._port)
        self._transport = connect(address, self.options, self._arrivals, tls=self._tls)
        self.connect_s = self._clock() - started_s
        return self._transport

    def _send(self, transport: Transport, data: Body, exchange: _Exchange) -> bool:
        """Send the request; a server may refuse a large one before it has all of it: False."""
        try:
            for number, segment in enumerate(data):
                if number:
                    gevent.sleep(_BREATH_S)  # megabytes at once would keep others waiting
                if exchange.ended.is_set():
                    return False
                transport.send(segment)
        except OSError as error:
            if not exchange.ended.wait(timeout=_REFUSAL_S):
                raise WireError("reset", error.strerror or str(error)) from error
            return False
        return True

    def _wait(self, exchange: _Exchange, reader: Reader) -> None:
        """Sleep until the answer is over.

        The deadline moves while it comes, to later or earlier, so it is looked at now and then.
        """
        options = self.options
        tick_s = min(_TICK_S, options.gap_timeout_s, options.end_timeout_s, options.head_timeout_s)
        while not exchange.ended.wait(
            timeout=min(tick_s, max(0.0, reader.deadline_s - self._clock()))
        ):
            now_s = self._clock()
            if now_s >= reader.deadline_s:
                raise WireError("timeout_read", "silent for too long")
            if now_s >= exchange.head_since_s + options.head_timeout_s:
                raise WireError("bad_http", f"no whole head in {options.head_timeout_s:g} s")


_TICK_S = 1.0
_MOST_HEAD_BYTES = 256 << 10  # servers themselves take 8 to 64 KiB
_BREATH_S = 1e-6  # not 0: gevent runs what has no wait before it looks at sockets again
_REFUSAL_S = 1.0  # for the answer of a server that stopped reading


def _is_stale(exchange: _Exchange) -> bool:
    failure: Any = exchange.failure
    return isinstance(failure, WireError) and failure.kind == "reset" and not exchange.answered
