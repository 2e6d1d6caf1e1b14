"""Measure the CPU cost of one server-sent event: our reader against stock Locust streaming.

One server process streams paced events (a token each 20 ms per stream, each its own packet), and
each client runs in a process of its own against it. Both read every event; the stock client decodes
the JSON of each too, as ours does. Besides the cost, the gap that each client measures is shown:
the true one is 20 ms. Run it with `python benchmarks/bench_generator.py`; the ratio is comparable
between machines, the microseconds are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

STREAMS, EVENTS, PACE_S = 50, 250, 0.02
RATIO_LIMIT = 1.3  # ours may cost this much of stock; above it the reader has become careless

EVENT = {
    "id": "chatcmpl-0",
    "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}],
    "model": "kimi-k3",
    "object": "chat.completion.chunk",
    "nvext": {"worker_id": {"decode_worker_id": 1 << 62}},
}
USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": EVENTS}}


def frame(payload: str) -> bytes:
    """Make one HTTP chunk of one event."""
    data = f"data: {payload}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request with paced events."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    await reader.readexactly(int(length.split(b":")[1]))
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    event, loop = frame(json.dumps(EVENT)), asyncio.get_running_loop()
    start = loop.time()
    for number in range(EVENTS):
        await asyncio.sleep(max(0.0, start + (number + 1) * PACE_S - loop.time()))
        writer.write(event)
    writer.write(frame(json.dumps(USAGE)) + frame("[DONE]") + b"0\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    writer.close()


async def serve() -> None:
    """Serve until standard input closes."""
    server = await asyncio.start_server(stream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def ours(url: str) -> list[float]:
    """Read one stream with our reader; return the gaps in seconds."""
    from loadtest.sse import Reply  # noqa: PLC0415 - each client process imports its own side
    from loadtest.wire import Connection, Timeouts  # noqa: PLC0415

    reply = Reply(time.perf_counter())
    for chunk in Connection(url, {}, Timeouts()).post("/", b"{}", {}):
        reply.read(chunk, time.perf_counter())
    reply.close()
    assert reply.chunks == EVENTS, reply.error
    return reply.gaps_s


def stock(url: str) -> list[float]:
    """Read one stream with FastHttpUser's session; return the gaps in seconds."""
    from locust.contrib.fasthttp import FastHttpSession  # noqa: PLC0415
    from locust.event import EventHook  # noqa: PLC0415

    session = FastHttpSession(base_url=url, request_event=EventHook(), user=None)
    stamps = []
    for line in session.iter_lines("/", method="POST", data="{}"):
        if line.startswith("data: {"):
            stamps.append(time.perf_counter())
            json.loads(line[6:])
    return [b - a for a, b in pairwise(stamps)]


CLIENTS: dict[str, Callable[[str], list[float]]] = {"ours": ours, "stock": stock}


def client(name: str, url: str) -> None:
    """Read all streams at once; print CPU µs per event and the gap's median and p99 in ms."""
    import gevent  # noqa: PLC0415

    if name == "stock":
        import locust  # noqa: F401, PLC0415 - patches sockets, as every Locust process does
    read = CLIENTS[name]
    read(url)  # imports and first use are not the cost of an event
    before_s = time.process_time()
    jobs = [gevent.spawn(read, url) for _ in range(STREAMS)]
    gevent.joinall(jobs, raise_error=True)
    cpu_us = (time.process_time() - before_s) * 1e6 / (STREAMS * EVENTS)
    gaps_ms = sorted(gap * 1000 for job in jobs for gap in job.value)
    print(json.dumps([cpu_us, median(gaps_ms), gaps_ms[len(gaps_ms) * 99 // 100]]))


def run(*arguments: str) -> list[float]:
    """Run this file as a client and return what it printed."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: list[float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print both clients and their ratio."""
    command = [sys.executable, __file__, "serve"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:  # type: ignore[call-overload]
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        rival, mine = run("stock", url), run("ours", url)
        server.terminate()
    print(f"{STREAMS} streams of {EVENTS} events, {PACE_S * 1000:.0f} ms apart")
    for name, (cpu_us, gap_ms, p99_ms) in (("stock Locust", rival), ("our reader", mine)):
        ratio = cpu_us / rival[0]
        print(
            f"{name:13} {cpu_us:5.0f} µs/event   {ratio:.2f}   gap {gap_ms:.1f} / {p99_ms:.1f} ms"
        )
    print(f"limit {RATIO_LIMIT} of stock")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case [name, url]:
            client(name, url)
        case _:
            main()
