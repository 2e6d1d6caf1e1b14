"""A house engine that is a double: it speaks the OpenAI API and computes nothing.

Two processes are one replica, as with a real engine: rank 1 joins rank 0, which is healthy only
then, and when one of them goes the other ends. Answers are always the same words, and say that they
are a double's. Tokens are counted with the tokenizer in the weights folder, and prompts are cached
by their beginning in whole blocks, so that what is reported as cached is true.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tokenizers

WORDS = ("This", " answer", " is", " a", " double's", ".")
SYSTEM_TAG, USER_TAG, ANSWER_TAG = -1, -2, -3
JOIN_TIMEOUT_S = 60.0


class Replica:
    """What all requests of rank 0 share."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.model: str = given.model
        self.block: int = given.block
        self.joined = threading.Semaphore(0)
        self.ready = threading.Event()
        self._vocabulary = tokenizers.Tokenizer.from_file(str(given.weights / "tokenizer.json"))
        self._cache: set[int] = set()
        self._lock = threading.Lock()

    def tokens(self, messages: list[dict[str, Any]]) -> list[int]:
        """Render a conversation: a tag and a text for each message, a tag for the answer."""
        ids: list[int] = []
        for message in messages:
            role = message["role"]
            if role == "assistant":
                ids += self._encode(message.get("reasoning_content") or "")
            else:
                ids.append(SYSTEM_TAG if role == "system" else USER_TAG)
            ids += self._encode(message["content"])
            if role == "user":
                ids.append(ANSWER_TAG)
        return ids

    def _encode(self, text: str) -> list[int]:
        return list(self._vocabulary.encode(text, add_special_tokens=False).ids)

    def cached(self, ids: list[int]) -> int:
        """Count the tokens that need no computing, and keep the others; the last one never is."""
        hits, chain, intact = 0, 0, True
        with self._lock:
            for start in range(0, len(ids) - self.block + 1, self.block):
                chain = hash((chain, *ids[start : start + self.block]))
                intact = intact and chain in self._cache
                hits += intact
                self._cache.add(chain)
        return min(hits, (len(ids) - 1) // self.block) * self.block

    def answer(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the deltas of an answer, and at last its usage."""
        ids = self.tokens(asked["messages"])
        cached = self.cached(ids)
        count = int(asked.get("max_completion_tokens") or asked.get("max_tokens") or len(WORDS))
        for number in range(count):
            yield {"content": WORDS[number % len(WORDS)]}
        yield {
            "prompt_tokens": len(ids),
            "completion_tokens": count,
            "total_tokens": len(ids) + count,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


class Api(BaseHTTPRequestHandler):
    """The OpenAI API of a replica."""

    protocol_version = "HTTP/1.1"
    replica: Replica

    def do_GET(self) -> None:
        """Answer health and models: only when the whole replica is there."""
        if not self.replica.ready.is_set():
            self._reply({"error": {"message": "not all ranks have joined"}}, 503)
        elif self.path == "/health":
            self._reply({"status": "ok"})
        elif self.path == "/v1/models":
            self._reply({"object": "list", "data": [{"id": self.replica.model, "object": "model"}]})
        else:
            self._reply({"error": {"message": "no such path"}}, 404)

    def do_POST(self) -> None:
        """Answer a chat, whole or as a stream."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions" or asked["model"] != self.replica.model:
            self._reply({"error": {"message": "no such path or model"}}, 404)
            return
        *deltas, usage = self.replica.answer(asked)
        if asked.get("stream"):
            self._stream(deltas, usage)
            return
        text = "".join(delta["content"] for delta in deltas)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._reply({**self._head("chat.completion"), "choices": [choice], "usage": usage})

    def _stream(self, deltas: list[dict[str, Any]], usage: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        head = self._head("chat.completion.chunk")
        for delta in deltas:
            self._event(json.dumps({**head, "choices": [{"index": 0, "delta": delta}]}))
        self._event(json.dumps({**head, "choices": [], "usage": usage}))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, text: str) -> None:
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _head(self, kind: str) -> dict[str, Any]:
        pod = os.environ.get("POD_NAME", "nowhere")
        return {
            "id": "chatcmpl-double",
            "object": kind,
            "created": int(time.time()),
            "model": self.replica.model,
            "system_fingerprint": f"double {pod}",
        }

    def _reply(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing: the gateway logs."""


class Server(ThreadingHTTPServer):
    """Many connections at once: each session keeps one."""

    daemon_threads = True
    request_queue_size = 128


def gather(replica: Replica, listener: socket.socket, ranks: int) -> None:
    """Wait for the other ranks; end when one of them goes."""

    def hold(connection: socket.socket) -> None:
        replica.joined.release()
        connection.recv(1)
        os._exit(1)

    for _ in range(ranks):
        connection, _ = listener.accept()
        threading.Thread(target=hold, args=(connection,), daemon=True).start()
    for _ in range(ranks):
        replica.joined.acquire()
    replica.ready.set()


def lead(given: argparse.Namespace) -> None:
    """Serve as rank 0."""
    host, _, port = given.listen.rpartition(":")
    replica = Replica(given)
    Api.replica = replica
    listener = socket.create_server((host, int(port) + 1))
    threading.Thread(target=gather, args=(replica, listener, given.nodes - 1), daemon=True).start()
    server = Server((host, int(port)), Api)
    signal.signal(
        signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start()
    )
    server.serve_forever(poll_interval=0.1)


def follow(given: argparse.Namespace) -> None:
    """Join rank 0, and end when it goes."""
    port = int(given.listen.rpartition(":")[2]) + 1
    deadline = time.monotonic() + JOIN_TIMEOUT_S
    connection = None
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            connection = socket.create_connection((given.leader, port), timeout=1.0)
            break
        time.sleep(0.1)
    if connection is None:
        raise SystemExit(f"rank {given.rank}: {given.leader}:{port} did not answer")
    connection.settimeout(None)
    with contextlib.suppress(OSError):
        connection.recv(1)
    raise SystemExit(f"rank {given.rank}: rank 0 is gone")


def main() -> None:
    """Read the command line, and be one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--leader", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--block", type=int, default=64)
    given = parser.parse_args()
    lead(given) if given.rank == 0 else follow(given)


if __name__ == "__main__":
    main()
