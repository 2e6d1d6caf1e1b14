"""Make one request and judge its answer; whatever fails is in the reply."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from loadtest.client.arrival import Clock
from loadtest.client.client_options import ClientOptions
from loadtest.client.deltas import Dialect, openai_delta
from loadtest.client.sse import Expected, Reply
from loadtest.client.taxonomy import classify_body, classify_status, classify_wire
from loadtest.client.wire import Connection, WireError
from loadtest.prompt.body import Body

_MOST_BODY_BYTES = 65_536  # of an answer that is no stream: enough to see what it is
_NO_EVENT = (b"<", b"{")  # how HTML and JSON start
_ENCODINGS = {"gzip", "x-gzip", "deflate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Hold what is sent, and what is expected of the answer."""

    path: str
    body: Body | bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    expected: Expected = field(default_factory=Expected)
    dialect: Dialect = openai_delta


def fetch(connection: Connection, request: Request, clock: Clock) -> Reply:
    """Send one request and read its stream to the end, as far as it has one."""
    reply = Reply(
        clock(), expected=request.expected, dialect=request.dialect, secret=connection.secret
    )
    reading = _Reading(reply, connection.options, clock)
    try:
        reply.retries = connection.post(request.path, request.body, request.headers, reading)
        reading.finish()
    except WireError as error:
        reading.fail(error)
    reply.connect_s = connection.connect_s
    reply.ended_s = reading.ended_s if reply.error is None else clock()
    return reply


class _Reading:
    """Feed an answer to its reply: a stream event by event, anything else as one short text."""

    def __init__(self, reply: Reply, options: ClientOptions, clock: Clock) -> None:
        self._reply = reply
        self._options = options
        self._clock = clock
        self._is_stream = False
        self._content_type = ""
        self._body = bytearray()
        self._decoder: _Decoder | None = None
        self._over_s: float | None = None
        self.ended_s = reply.sent_s

    @property
    def deadline_s(self) -> float:
        """Give the moment at which patience ends: for the first token, the next, or all of it."""
        reply, options = self._reply, self._options
        if self._over_s is not None:
            return self._over_s + options.end_timeout_s
        if reply.last_s is None:
            patience_s = reply.sent_s + options.first_token_timeout_s
        else:
            patience_s = reply.last_s + options.gap_timeout_s
        return min(patience_s, reply.sent_s + options.total_timeout_s)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Note what kind of answer it is."""
        self._reply.status = status
        self._content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        # Without a type it is taken for what was asked for, until its first byte says otherwise.
        self._is_stream = status == 200 and self._content_type in {"text/event-stream", ""}
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding in _ENCODINGS:
            self._decoder = _Decoder(self._options.max_event_bytes)
        elif encoding != "identity":
            self._reply.fail("bad_encoding", f"Content-Encoding {encoding}, which was not asked")

    def read(self, chunk: bytes, arrived_s: float, late_s: float) -> bool:
        """Take body bytes; True = enough."""
        reply = self._reply
        self.ended_s = arrived_s
        reply.read_late_s = max(reply.read_late_s, late_s)
        if self._decoder is not None:
            chunk = self._decoded(self._decoder, chunk)
        if self._is_stream and reply.received_bytes == 0 and chunk[:1] in _NO_EVENT:
            self._is_stream = False
        if not self._is_stream:
            self._body += chunk[:_MOST_BODY_BYTES]
            reply.received_bytes += len(chunk)
            return len(self._body) >= _MOST_BODY_BYTES or reply.error is not None
        reply.read(chunk, arrived_s)
        if self._over_s is None and (reply.done or reply.error is not None):
            self._over_s = arrived_s
        return reply.is_enough

    def _decoded(self, decoder: _Decoder, chunk: bytes) -> bytes:
        try:
            return decoder.decode(chunk)
        except zlib.error as error:
            self._reply.fail("bad_encoding", str(error))
        except OverflowError as error:
            self._reply.fail("oversized_event", str(error))
        return b""

    def finish(self) -> None:
        """Judge an answer that came to its end."""
        reply = self._reply
        if self._is_stream:
            reply.close()
        elif reply.status == 200:
            reply.fail(*classify_body(self._content_type, bytes(self._body)))
        else:
            text = bytes(self._body).decode("utf-8", "replace")
            reply.fail(classify_status(reply.status, bytes(self._body)), text)

    def fail(self, error: WireError) -> None:
        """Judge an answer that did not come to its end."""
        reply, detail = self._reply, error.detail
        kind = classify_wire(error.kind, reply.status, reply.chunks)
        if error.kind == "timeout_read":
            kind, detail = self._impatience(kind)
        if reply.status in {0, 200}:
            reply.fail(kind, detail)
        else:  # a refusal that was cut is a refusal
            self.finish()
        reply.close()

    def _impatience(self, kind: str) -> tuple[str, str]:
        """Name the limit that was passed."""
        reply, options = self._reply, self._options
        if reply.done:
            return "truncated", "the HTTP message did not end after [DONE]"
        if self._clock() >= reply.sent_s + options.total_timeout_s:
            return "timeout_total", f"no end in {options.total_timeout_s:g} s"
        if kind == "timeout_gap":
            return kind, f"no token for {options.gap_timeout_s:g} s after {reply.chunks} chunks"
        return kind, f"no token in {options.first_token_timeout_s:g} s"


class _Decoder:
    """Decompress, within bounds: a kilobyte can hold a megabyte of zeros."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._zlib = zlib.decompressobj(wbits=47)  # 32 + 15: gzip or zlib, as the header says

    def decode(self, chunk: bytes) -> bytes:
        """Give the clear bytes. Raises zlib.error, OverflowError."""
        clear = self._zlib.decompress(chunk, self._max_bytes)
        if self._zlib.unconsumed_tail:
            raise OverflowError(f"{len(chunk)} bytes hold more than {self._max_bytes:,}")
        return clear
