"""Read a streamed chat completion and time it.

Stock Locust streaming waits until 1,024 bytes are buffered, which turns a 20 ms chunk gap into
82 ms and triples TTFT. This reader takes whatever one network read brought, stamps it once, and
parses it incrementally: an event may end anywhere, also inside a CRLF or a UTF-8 character.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

DONE: Final = b"[DONE]"
_DETAIL_CHARS = 200
_CR = 0x0D
_LF = 0x0A


class Event(NamedTuple):
    """Hold one server-sent event: its name, its data lines joined, its comment lines joined."""

    name: str = ""
    data: bytes | None = None
    comment: bytes | None = None


class EventParser:
    """Split a byte stream into events, whatever the cuts between the reads."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False
        self._name = b""
        self._data: list[bytes] = []
        self._comments: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completes."""
        if self._after_cr and chunk:
            # A CR ended the last chunk: its LF, if any, belongs to the same line end.
            chunk = chunk[1:] if chunk[0] == _LF else chunk
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk[-1] == _CR
        buffered = self._rest + chunk
        if b"\r" in buffered:
            buffered = buffered.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = buffered.split(b"\n")
        events: list[Event] = []
        for line in lines:
            if line:
                self._take(line)
            elif self._data or self._comments or self._name:
                events.append(self._finish())
        return events

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not name:
            self._comments.append(value)
        elif name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value

    def _finish(self) -> Event:
        event = Event(
            name=self._name.decode("utf-8", "replace"),
            data=b"\n".join(self._data) if self._data else None,
            comment=b"\n".join(self._comments) if self._comments else None,
        )
        self._name, self._data, self._comments = b"", [], []
        return event


@dataclass(slots=True)
class Reply:
    """Collect one streamed answer: what it said about itself, and when.

    TTFT is the first read with a non-empty content, reasoning or tool delta; a chunk that carries
    only a role does not count. A gap is the time between two reads that carried such deltas, so
    deltas that arrived together are one arrival and make no false gaps of zero.
    """

    sent_s: float
    ended_s: float = 0.0
    status: int = 0
    received_bytes: int = 0
    first_s: float | None = None
    last_s: float | None = None
    chunks: int = 0
    gaps_s: list[float] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    worker: str | None = None
    prefill_worker: str | None = None
    """The one that computed the prompt, when it is not the one that generates."""
    error: str | None = None
    error_detail: str = ""
    done: bool = False
    events: list[Event] = field(default_factory=list)
    """Named events, which are annotations of the server; kept for the calibration."""
    _parser: EventParser = field(default_factory=EventParser)

    def read(self, chunk: bytes, now_s: float) -> None:
        """Take the bytes of one network read, all stamped `now_s`."""
        self.received_bytes += len(chunk)
        tokens_before = self.chunks
        for event in self._parser.feed(chunk):
            if event.name:
                self.events.append(event)
            if event.data is not None and not self.done:
                self._take(event)
        if self.chunks > tokens_before:
            if self.last_s is None:
                self.first_s = now_s
            else:
                self.gaps_s.append(now_s - self.last_s)
            self.last_s = now_s

    def close(self) -> None:
        """Judge the finished stream: an answer must have tokens, its usage and an end mark."""
        if self.error is not None:
            return
        if not self.done:
            self.fail("truncated", f"the stream ended after {self.chunks} chunks without [DONE]")
        elif self.chunks == 0:
            self.fail("empty", "the stream ended without a token")
        elif self.usage is None:
            self.fail("no_usage", "the stream ended without usage")

    def _take(self, event: Event) -> None:
        data = event.data or b""
        if data == DONE:
            self.done = True
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            self.fail("bad_json", data.decode("utf-8", "replace"))
            return
        if not isinstance(chunk, dict):
            self.fail("bad_json", data.decode("utf-8", "replace"))
            return
        if chunk.get("error") or event.name == "error":
            self.fail("in_stream_error", data.decode("utf-8", "replace"))
            return
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        if _has_token(chunk.get("choices")):
            self.chunks += 1
        nvext = chunk.get("nvext")
        if nvext:
            self._take_workers(nvext)

    def _take_workers(self, nvext: Any) -> None:
        """Read who works on it; the last ones count after a migration."""
        workers = nvext.get("worker_id") if isinstance(nvext, dict) else None
        if not isinstance(workers, dict):
            return
        decode, prefill = workers.get("decode_worker_id"), workers.get("prefill_worker_id")
        if decode is not None:
            self.worker = str(decode)
        if prefill is not None:
            self.prefill_worker = str(prefill) if prefill != decode else None

    def fail(self, error: str, detail: str) -> None:
        """Note why the request failed; the first reason stays."""
        if self.error is None:
            self.error, self.error_detail = error, detail[:_DETAIL_CHARS]


def _has_token(choices: Any) -> bool:
    if not isinstance(choices, list):
        return False
    for choice in choices:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(delta, dict) and (
            delta.get("content")
            or delta.get("reasoning_content")
            or delta.get("reasoning")
            or delta.get("tool_calls")
        ):
            return True
    return False
