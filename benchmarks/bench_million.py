"""Measure how long a request of a million tokens keeps all other sessions waiting.

One message of a million tokens is drawn, counted, hashed, encoded and sent to a server in another
process, through the code that sessions use. Beside it a greenlet wakes every millisecond: the
most CPU time that goes by between two of its turns is how long any other session would have
waited on a core of its own; waits for a core that other programs have are not ours. The naive way
(one string, one JSON document, one send) is measured the same way. Run it with
`python benchmarks/bench_million.py`.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import gevent
import orjson

from loadtest.client.fetch import Request, fetch
from loadtest.client.wire import Connection
from loadtest.play.load_run import breathe
from loadtest.prompt.api import Wish
from loadtest.prompt.api_chat import ChatApi
from loadtest.prompt.body import Body
from loadtest.prompt.ledger import Ledger
from loadtest.prompt.messages import Message
from loadtest.prompt.prompts import Frame, make_prompt
from loadtest.prompt.session_options import SessionOptions
from loadtest.prompt.words import Vocabulary

TOKENS, BLOCK, TICK_S, ROUNDS = 1_000_000, 128, 0.001, 5
LIMIT_MS = 20.0
FRAME = Frame(
    between={("start", "user"): bytes(48), ("user", "end"): bytes(48)},
    exact=True,
)
ANSWER = b"".join(
    b"data: %b\n\n" % data
    for data in (
        b'{"choices":[{"index":0,"delta":{"content":" a"}}]}',
        b'{"choices":[],"usage":{"prompt_tokens":1000024,"completion_tokens":1}}',
        b"[DONE]",
    )
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(
    ANSWER
)


def serve() -> None:
    """Read each request whole, then answer it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                while head := stream.readline():
                    length = 0
                    while head.strip():
                        name, _, value = head.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                        head = stream.readline()
                    stream.read(length)
                    connection.sendall(HEAD + ANSWER)


def words() -> Vocabulary:
    """Make a vocabulary with words of K3's length."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [f"word{a}{b}{c}" for a in letters[:10] for b in letters for c in letters]
    return Vocabulary(names, range(len(names)))


def ours(vocabulary: Vocabulary, rng: random.Random) -> Body:
    """Build a request as a session does."""
    api = ChatApi("kimi-k3", SessionOptions())
    ledger = Ledger(FRAME, BLOCK, api.fragment, breathe)
    message = Message(role="user", content=vocabulary.draw(rng, TOKENS))
    ledger.advance([message])
    return api.body([message], ledger.fragments, Wish(max_tokens=1))


def naive(vocabulary: Vocabulary, rng: random.Random) -> bytes:
    """Build a request in one go."""
    message = Message(role="user", content=vocabulary.draw(rng, TOKENS))
    make_prompt(FRAME.tokens([message]), BLOCK)
    return orjson.dumps({"model": "kimi-k3", "messages": [message.body()], "max_tokens": 1})


def longest_block_ms(request: Callable[[], None]) -> float:
    """Make a request; tell the most CPU time that went by before another greenlet had its turn."""
    longest_s, over = 0.0, False

    def tick() -> None:
        nonlocal longest_s
        while not over:
            before_s = time.process_time()
            gevent.sleep(TICK_S)
            longest_s = max(longest_s, time.process_time() - before_s)

    watch = gevent.spawn(tick)
    gevent.sleep(5 * TICK_S)
    longest_s = 0.0
    request()
    over = True
    watch.join()
    return longest_s * 1000


def measure(url: str) -> dict[str, list[float]]:
    """Take turns between the two ways; give the longest block of each round."""
    found: dict[str, list[float]] = {"ours": [], "naive": []}
    vocabularies = {"ours": words(), "naive": words()}
    vocabularies["ours"].breathe = breathe
    connection = Connection(url, {})
    # A process looks up its first name with what it has to load for that: no part of a request.
    fetch(connection, Request(path="/", body=b"{}"), time.perf_counter)
    for number in range(ROUNDS):
        for name, build in (("ours", ours), ("naive", naive)):
            rng = random.Random(number)  # noqa: S311 - no secret

            def request(name: str = name, build=build, rng=rng) -> None:  # type: ignore[no-untyped-def]
                body = build(vocabularies[name], rng)
                reply = fetch(connection, Request(path="/", body=body), time.perf_counter)
                assert reply.error is None, reply.error_detail

            found[name].append(longest_block_ms(request))
    return found


def main() -> int:
    """Print both ways; 1 when ours blocks for longer than the limit, be it once."""
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = measure(f"http://127.0.0.1:{int(server.stdout.readline())}")
        server.terminate()
    mine, rival = sorted(found["ours"]), sorted(found["naive"])
    print(
        f"longest block while {TOKENS:,} tokens are built and sent, {ROUNDS} rounds: "
        f"ours {mine[0]:.1f} / {mine[ROUNDS // 2]:.1f} / {mine[-1]:.1f} ms of CPU (limit "
        f"{LIMIT_MS:g} of the longest), in one go {rival[0]:.1f} / {rival[ROUNDS // 2]:.1f} / "
        f"{rival[-1]:.1f} ms; load average {os.getloadavg()[0]:.1f}"
    )
    return int(mine[-1] > LIMIT_MS)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main())
