"""Read a streamed answer and time it.

Stock Locust streaming waits until 1,024 bytes are buffered, which turns a 20 ms chunk gap into
82 ms and triples TTFT. This reader takes whatever one network read brought, with the moment at
which it arrived, and parses it incrementally.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import orjson

from loadtest.client.deltas import Delta, Dialect, ToolCalls, openai_delta
from loadtest.client.event_stream import Event, EventParser, OversizedEventError
from loadtest.client.secret import without_secret
from loadtest.client.text_shape import TextShape
from loadtest.client.usage import usage_fault

DONE: Final = b"[DONE]"
_DETAIL_CHARS = 200
_HANG_UP = {"oversized_event", "bad_encoding"}  # of others the rest is read, to keep the connection
_MOST_EVENTS = 64  # annotations kept; a hostile stream has no end of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Hold what the request asked for, as far as the answer is judged by it."""

    tools: frozenset[str] = frozenset()
    """Names of the declared tools; without any, tool calls are not judged."""
    max_tokens: int | None = None
    keep_text: bool = False
    """Assemble content, reasoning and tool calls, for a history that goes on with them."""
    cancel_after_chunks: int | None = None
    """Hang up after so many chunks with tokens, as a user does who has seen enough."""
    validate_json: bool = False
    max_event_bytes: int = 16 << 20

    @property
    def most_chunks(self) -> float:
        """Give the number of chunks at which to stop: asked for, or of an answer without end.

        A token makes at most two chunks (a tool's name and the start of its arguments).
        """
        most = inf if self.max_tokens is None else 2 * self.max_tokens + 100
        return most if self.cancel_after_chunks is None else min(most, self.cancel_after_chunks)


@dataclass(slots=True)
class Reply:
    """Collect one streamed answer: what it said about itself, and when.

    TTFT is the arrival of the first non-empty content, reasoning or tool delta; a chunk that
    carries only a role does not count. A gap is the time between two reads that carried such
    deltas, so deltas that arrived together are one arrival and make no false gaps of zero.
    """

    sent_s: float
    ended_s: float = 0.0
    status: int = 0
    received_bytes: int = 0
    first_s: float | None = None
    first_output_s: float | None = None
    """Arrival of the first content or tool delta: what comes after the reasoning."""
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
    finish_reason: str | None = None
    cancelled: bool = False
    """We hung up, as the request said; such an answer has no usage and is no failure."""
    retries: int = 0
    """How often it was sent anew because a kept-alive connection turned out closed."""
    connect_s: float = 0.0
    """Part of the wait that went into a new connection; 0 over a kept one."""
    read_late_s: float = 0.0
    """Longest time between an arrival and our reading it: how busy this generator is."""
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    events: list[Event] = field(default_factory=list)
    """Named events, which are annotations of the server; kept for the calibration."""
    expected: Expected = field(default_factory=Expected)
    dialect: Dialect = openai_delta
    secret: str = field(default="", repr=False)
    """The key that was sent: it is in no detail, whatever the server says."""
    _parser: EventParser = field(init=False)
    _shape: TextShape = field(init=False, default_factory=TextShape)
    _tools: ToolCalls = field(init=False, default_factory=ToolCalls)
    _texts: dict[str, list[str]] = field(init=False)
    _started_output: bool = field(init=False, default=False)
    _limit: float = field(init=False)

    def __post_init__(self) -> None:
        self._limit = max(self.expected.most_chunks, 1)
        self._parser = EventParser(self.expected.max_event_bytes)
        self._texts = {"content": [], "reasoning": []}

    def read(self, chunk: bytes, now_s: float) -> None:
        """Take the bytes of one network read, which arrived at `now_s`."""
        self.received_bytes += len(chunk)
        chunks_before = self.chunks
        try:
            events = self._parser.feed(chunk)
        except OversizedEventError as error:
            self.fail("oversized_event", str(error))
            return
        for event in events:
            if event.name and len(self.events) < _MOST_EVENTS:
                self.events.append(event)
            if event.data is not None and not self.done:
                self._take(event.data, event.name)
        if self.chunks > chunks_before:
            if self.last_s is None:
                self.first_s = now_s
            else:
                self.gaps_s.append(now_s - self.last_s)
            self.last_s = now_s
            if self._started_output and self.first_output_s is None:
                self.first_output_s = now_s

    @property
    def is_enough(self) -> bool:
        """Tell whether to hang up; notes a cancellation, or an answer without end."""
        if self.chunks < self._limit and self.error is None:
            return False
        asked = self.expected.cancel_after_chunks
        if self.error is not None or self.done:
            return self.error in _HANG_UP
        if asked is not None and self.chunks >= max(asked, 1):
            self.cancelled = True
        else:
            self.fail("endless", f"{self.chunks} chunks, {self.expected.max_tokens} tokens asked")
        return True

    def close(self) -> None:
        """Judge the finished stream: an answer must have tokens, its usage and an end mark."""
        self.content, self.reasoning = ("".join(texts) for texts in self._texts.values())
        self.tool_calls = self._tools.calls()
        if self.error is not None or self.cancelled:
            return
        if not self.done:
            self.fail("truncated", f"the stream ended after {self.chunks} chunks without [DONE]")
        elif self.chunks == 0:
            self.fail("empty", "the stream ended without a token")
        elif fault := _tool_fault(self.tool_calls, self.expected.tools):
            self.fail(*fault)
        elif self.usage is None:
            self.fail("no_usage", "the stream ended without usage")
        elif wrong := usage_fault(self.usage, self.expected.max_tokens):
            self.fail("bad_usage", wrong)

    def fail(self, error: str, detail: str) -> None:
        """Note why the request failed; the first reason stays."""
        if self.error is None:
            shown = without_secret(detail, self.secret)  # before the cut: it may cut the secret
            self.error, self.error_detail = error, shown[:_DETAIL_CHARS]

    def _take(self, data: bytes, name: str) -> None:
        if not name and self._shape.matches(data):
            self.chunks += 1  # differs from a parsed chunk in nothing but its text
            self._started_output = self._started_output or self._shape.is_output
            return
        if data == DONE:
            self.done = True
            return
        chunk = _parsed(data)
        if not isinstance(chunk, dict):
            self.fail("bad_json", data[: 4 * _DETAIL_CHARS].decode("utf-8", "replace"))
        elif chunk.get("error") or name == "error":
            self.fail("in_stream_error", data[: 4 * _DETAIL_CHARS].decode("utf-8", "replace"))
        else:
            self._take_chunk(chunk, data)

    def _take_chunk(self, chunk: dict[str, Any], data: bytes) -> None:
        delta = self.dialect(chunk)
        if delta.usage is not None:
            self._take_usage(delta.usage)
        if delta.finish_reason is not None:
            self.finish_reason = without_secret(str(delta.finish_reason), self.secret)
        if delta.has_token:
            self._take_tokens(delta)
            if not (self.expected.validate_json or self.expected.keep_text):
                self._shape.learn(data, delta)
        self.done = self.done or delta.done
        nvext = chunk.get("nvext")
        if nvext:
            self._take_workers(nvext)

    def _take_tokens(self, delta: Delta) -> None:
        self.chunks += 1
        self._started_output = self._started_output or bool(delta.content or delta.tool_calls)
        if delta.tool_calls and (self.expected.tools or self.expected.keep_text):
            self._tools.add(delta.tool_calls)
        if self.expected.keep_text:
            self._texts["content"].append(delta.content)
            self._texts["reasoning"].append(delta.reasoning)

    def _take_usage(self, usage: dict[str, Any]) -> None:
        """Keep the last usage; a prompt does not change its length while it is answered."""
        before = (self.usage or {}).get("prompt_tokens")
        now = usage.get("prompt_tokens", before)
        if before is not None and now != before:
            self.fail("bad_usage", f"prompt_tokens went from {before} to {now} within one answer")
        self.usage = usage

    def _take_workers(self, nvext: Any) -> None:
        """Read who works on it; the last ones count after a migration."""
        workers = nvext.get("worker_id") if isinstance(nvext, dict) else None
        if not isinstance(workers, dict):
            return
        decode, prefill = workers.get("decode_worker_id"), workers.get("prefill_worker_id")
        if decode is not None:
            self.worker = without_secret(str(decode), self.secret)
        if prefill is not None:
            named = without_secret(str(prefill), self.secret)
            self.prefill_worker = named if prefill != decode else None


def _parsed(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _tool_fault(calls: tuple[dict[str, Any], ...], tools: frozenset[str]) -> tuple[str, str] | None:
    """Name the class and detail of the first call that a harness could not run."""
    for call in calls if tools else ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        if name not in tools:
            return "wrong_tool_name", f"{name!r} was not declared"
        try:
            parsed = orjson.loads(arguments or "{}")
        except orjson.JSONDecodeError as error:
            return "bad_tool_arguments", f"{name}: {error}: {arguments}"
        if not isinstance(parsed, dict):
            return "bad_tool_arguments", f"{name}: no JSON object: {arguments}"
    return None
