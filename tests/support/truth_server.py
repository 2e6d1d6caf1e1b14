"""Serve streams whose truth is known: each request says when which bytes are to be sent.

The body of a request holds a script under `truth`: a list of steps; the first key is its kind.

    {"wait": 0.05}                    let time pass
    {"spread": 0.02}                  a part of it, another for each request: streams do not beat
    {"events": {"count": 20, "gap_s": 0.02, "tokens": 1}}   paced tokens; or "gaps_s": [0.1, 0.2]
    {"event": {...}}                  one event of this JSON, or of this text
    {"drip": {...}}                   the same event, each byte in a chunk and a packet of its own
    {"usage": {...}}                  the usage chunk; without fields the true counts
    {"done": true}                    `[DONE]` and the end of the answer
    {"head": {"status": 503, "headers": {...}}}   instead of the head of a good stream
    {"frame": "text"}                 one HTTP chunk of this text, whatever it says
    {"raw": "text"} {"gzip": "text", "repeat": 9}   bytes as they are, outside of any framing;
                                      raw ones repeat with a gap_s in between
    {"forever": {"frame": "x", "gap_s": 0.01}}      the same frame until the client goes
    {"huge": 1000000}                 that many bytes of an event that does not end
    {"close": true} {"reset": true} {"hang": true}   how the connection ends

Moments are fixed when the request has arrived, so lateness does not add up, and each write is
stamped on the machine's monotonic clock, which a client on the same machine shares. `GET /truth`
gives, and forgets, what was written when, and how late that was against the script: an error of
the client and one of this server are told apart. One process, one thread; prints its port, ends
when its stdin closes.
"""

from __future__ import annotations

import gzip
import heapq
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Connection: keep-alive\r\n\r\n"
)
SPIN_S = 0.0001  # a sleep shorter than this comes late more often than not
GOLDEN = 0.618034  # multiples of it, modulo 1, are evenly spread
MOST_ANSWERS = 50_000  # kept until somebody asks for them
DEFAULT_SCRIPT = [{"wait": 0.02}, {"events": {"count": 16, "gap_s": 0.01}}, {"usage": {}}]
LINGER_NONE = struct.pack("ii", 1, 0)

Action = tuple[float, bytes, str]
"""Seconds to let pass, bytes to send, and what it is: token, text, close, reset, hang, end."""


def frame(data: bytes) -> bytes:
    """Wrap data as one HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(payload: Any) -> bytes:
    """Make one server-sent event in one HTTP chunk."""
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
    return frame(f"data: {text}\n\n".encode())


def token_event(tokens: int) -> bytes:
    """Make the event of a chunk that holds so many tokens, 231 bytes for one."""
    choice = {"index": 0, "delta": {"content": " word" * tokens}, "finish_reason": None}
    chunk = {
        "id": "chatcmpl-0b5f2c8e41d94f6f9a7cf0a1",
        "object": "chat.completion.chunk",
        "created": 1_796_000_000,
        "model": "kimi-k3",
        "choices": [choice],
        "nvext": {"worker_id": {"decode_worker_id": 1 << 62}},
    }
    return event(chunk)


def actions(script: list[dict[str, Any]], number: int = 0) -> Iterator[Action]:
    """Turn a script into what is sent when; `number` counts the requests."""
    sent_tokens = 0
    if not _has_own_start(script):
        yield 0.0, HEAD, "text"
    for step in script:
        (kind, value), *_ = step.items()
        if kind == "spread":
            yield value * (number * GOLDEN % 1.0), b"", "text"
        elif kind == "events":
            gaps = value.get("gaps_s") or [value["gap_s"]] * (value["count"] - 1)
            tokens = value.get("tokens", 1)
            data = token_event(tokens)
            for gap_s in (0.0, *gaps):
                sent_tokens += tokens
                yield gap_s, data, "token"
        elif kind == "usage":
            usage = {"prompt_tokens": 9, "completion_tokens": sent_tokens, **value}
            yield 0.0, event({"choices": [], "usage": usage}), "text"
        elif kind == "forever":
            data = frame(value["frame"].encode() * value.get("repeat", 1))
            while True:
                yield value["gap_s"], data, "text"
        elif kind == "raw":
            for _ in range(step.get("repeat", 1)):
                yield step.get("gap_s", 0.0), value.encode(), "text"
        elif kind == "gzip":
            yield 0.0, gzip.compress(value.encode() * step.get("repeat", 1)), "text"
        else:
            yield from _simple(kind, value)


def _has_own_start(script: list[dict[str, Any]]) -> bool:
    """Tell whether the script sends no good head, or nothing at all."""
    first = next((step for step in script if "wait" not in step), {})
    return bool({"close", "reset", "hang", "head", "raw", "gzip"} & first.keys())


def _simple(kind: str, value: Any) -> Iterator[Action]:
    if kind == "wait":
        yield float(value), b"", "text"
    elif kind == "event":
        yield 0.0, event(value), "text"
    elif kind == "done":
        yield 0.0, event("[DONE]") + b"0\r\n\r\n", "end"
    elif kind == "head":
        headers = "".join(f"{name}: {text}\r\n" for name, text in value.get("headers", {}).items())
        yield 0.0, f"HTTP/1.1 {value['status']} X\r\n{headers}\r\n".encode(), "text"
    elif kind == "frame":
        yield 0.0, frame(value.encode()), "text"
    elif kind == "drip":
        for byte in event(value).split(b"\r\n", 1)[1].removesuffix(b"\r\n"):
            yield 0.0005, frame(bytes([byte])), "text"
    elif kind == "huge":
        yield 0.0, frame(b"data: "), "text"
        for _ in range(value // 100_000):
            yield 0.0, frame(b"x" * 100_000), "text"
    elif kind in {"close", "reset", "hang"}:
        yield 0.0, b"", kind
    else:
        raise ValueError(f"{kind}: no such step")


@dataclass(slots=True)
class Answer:
    """Hold what one request got, on the monotonic clock."""

    id: str
    received_s: float
    due_s: list[float] = field(default_factory=list)
    written_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    """How long each write took: its true moment is not known better than that."""


@dataclass(slots=True, eq=False)
class Client:
    """Hold one connection: what it sent, what is still to be written to it, its script."""

    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    script: Iterator[Action] | None = None
    answer: Answer | None = None
    action: Action = (0.0, b"", "text")


class TruthServer:
    """Run all scripts in one loop: a heap of due moments beside epoll."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self._poll = select.epoll()
        self._poll.register(self.listener, select.EPOLLIN)
        self._poll.register(sys.stdin, select.EPOLLIN)
        self._clients: dict[int, Client] = {}
        self._due: list[tuple[float, int, Client]] = []
        self._count = 0
        self._answers: list[Answer] = []
        self._requests = 0

    def run(self) -> None:
        """Serve until standard input closes."""
        while True:
            now_s = time.perf_counter()
            while self._due and self._due[0][0] <= now_s:
                due_s, _, client = heapq.heappop(self._due)
                self._act(client, due_s)
                now_s = time.perf_counter()
            wait_s = self._due[0][0] - now_s if self._due else 1.0
            # epoll counts in milliseconds, select in microseconds.
            select.select([self._poll], [], [], wait_s if wait_s > SPIN_S else 0.0)
            for number, flags in self._poll.poll(0):
                if number == sys.stdin.fileno():
                    return
                if number == self.listener.fileno():
                    self._accept()
                elif number in self._clients:
                    self._serve(self._clients[number], flags)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self.listener.accept()
            except BlockingIOError:
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._clients[accepted.fileno()] = Client(accepted)
            self._poll.register(accepted, select.EPOLLIN)

    def _serve(self, client: Client, flags: int) -> None:
        try:
            if flags & select.EPOLLOUT:
                self._write(client, b"")
            if flags & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                data = client.socket.recv(1 << 20)
                if not data:
                    return self._drop(client)
                client.received += data
                self._take_requests(client)
        except BlockingIOError:
            return None
        except OSError:
            self._drop(client)
        return None

    def _take_requests(self, client: Client) -> None:
        head, found, rest = bytes(client.received).partition(b"\r\n\r\n")
        if not found or client.script is not None:
            return None
        headers = dict(
            line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line
        )
        length = int(headers.get(b"content-length", b"0"))
        if len(rest) < length:
            return None
        received_s = time.perf_counter()
        client.received = bytearray(rest[length:])
        if head.startswith(b"GET"):
            return self._tell(client, head.startswith(b"GET /truth"))
        body = json.loads(rest[:length])
        name = headers.get(b"x-request-id", b"").decode()
        client.answer = Answer(str(body.get("truth_id", name)), received_s)
        if len(self._answers) < MOST_ANSWERS:
            self._answers.append(client.answer)
        self._requests += 1
        script = body.get("truth") or [*DEFAULT_SCRIPT, {"done": True}]
        client.script = actions(script, self._requests)
        self._next(client, received_s)
        return None

    def _tell(self, client: Client, truth: bool) -> None:
        answers, self._answers = self._answers if truth else [], [] if truth else self._answers
        told = {
            "wall_minus_monotonic_s": time.time() - time.perf_counter(),
            "cpu_s": time.process_time(),
            "answers": [
                {
                    "id": answer.id,
                    "received_s": answer.received_s,
                    "due_s": answer.due_s,
                    "written_s": answer.written_s,
                    "took_s": answer.took_s,
                }
                for answer in answers
            ],
        }
        body = json.dumps(told).encode()
        self._write(client, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    def _next(self, client: Client, due_s: float) -> None:
        """Plan the next action; what is due at the same moment goes out at once, in one write."""
        assert client.script is not None
        for action in client.script:
            client.action = action
            if action[0] > 0.0:
                due_s += action[0]
                break
            if self._send(client, due_s):
                return
        else:
            client.script = None
            return
        self._count += 1
        heapq.heappush(self._due, (due_s, self._count, client))

    def _act(self, client: Client, due_s: float) -> None:
        if client.socket.fileno() >= 0 and not self._send(client, due_s):
            self._next(client, due_s)

    def _send(self, client: Client, due_s: float) -> bool:
        """Do the planned action; tell whether it was the last of this answer."""
        _, data, kind = client.action
        if kind == "token" and client.answer is not None:
            client.answer.due_s.append(due_s)
            client.answer.written_s.append(time.perf_counter())
        try:
            if data:
                self._write(client, data)
        except OSError:
            kind = "close"
        if kind == "token" and client.answer is not None:
            client.answer.took_s.append(time.perf_counter() - client.answer.written_s[-1])
        if kind == "end":
            client.script = None
        elif kind in {"close", "reset"}:
            if kind == "reset":
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            self._drop(client)
        return kind in {"end", "close", "reset", "hang"}

    def _write(self, client: Client, data: bytes) -> None:
        """Send, and keep what the client does not take yet."""
        client.unsent += data
        try:
            sent = client.socket.send(client.unsent)
            del client.unsent[:sent]
        except BlockingIOError:
            pass
        more = select.EPOLLOUT if client.unsent else 0
        if more or data == b"":
            self._poll.modify(client.socket, select.EPOLLIN | more)

    def _drop(self, client: Client) -> None:
        if client.socket.fileno() >= 0:
            self._clients.pop(client.socket.fileno(), None)
            self._poll.unregister(client.socket)
            client.socket.close()


def main() -> None:
    """Start, say the port, serve."""
    server = TruthServer()
    sys.stdout.write(f"{server.listener.getsockname()[1]}\n")
    sys.stdout.flush()
    server.run()


if __name__ == "__main__":
    main()
