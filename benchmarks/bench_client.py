"""Measure the client: what an event costs, and how true its times are, beside two rivals.

One server streams events at known moments; our client, stock Locust streaming (FastHttpUser) and
the whole AIPerf pipeline read the same load, one after the other, each bound to one core, the
server to another. Errors are against what the server wrote and when, so that its own lateness is
not in them. Ratios are comparable between machines, microseconds are not. About four minutes.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rivals import AIPERF, AIPerf, stock_session, stock_stream
from truth import Load, Result, Seen, compare, pin, quantile, take_truth, truth_server

GAP_S, EVENTS = 0.02, 40
LOADS = [
    Load(streams=streams, rounds=rounds, events=EVENTS, gap_s=GAP_S)
    for streams, rounds in ((10, 12), (20, 10), (50, 8), (100, 8))
]
TIMES_AIPERF, TIMES_STOCK, LIMIT_MS = 4.0, 1.3, 1.0
PARSED_EVENTS = 100_000


def our_client(url: str) -> Callable[[dict[str, Any]], Seen]:
    """Make our client of one session; it keeps its connection."""
    from loadtest.client.fetch import Request, fetch  # noqa: PLC0415 - each process imports its own side
    from loadtest.client.wire import Connection  # noqa: PLC0415

    connection = Connection(url, {})

    def read(body: dict[str, Any]) -> Seen:
        request = Request(path="/v1/chat/completions", body=json.dumps(body).encode())
        reply = fetch(connection, request, time.perf_counter)
        assert reply.error is None, reply.error_detail
        return Seen(id=body["truth_id"], first_s=reply.first_s or 0.0, gaps_s=reply.gaps_s)

    return read


def stock_client(url: str) -> Callable[[dict[str, Any]], Seen]:
    """Make stock Locust's client of one session; it keeps its connection too."""
    session = stock_session(url)
    return lambda body: stock_stream(session, body)


def client(name: str, url: str, load: Load) -> None:
    """Read all streams of a load; print CPU seconds and what was seen as JSON."""
    import gevent  # noqa: PLC0415

    pin(0)
    make = our_client if name == "ours" else stock_client
    make(url)({"truth_id": "warm", "truth": load.script})  # imports are not the cost of an event

    def play(stream: int) -> list[Seen]:
        read = make(url)
        bodies = ({"truth_id": f"{stream}.{n}", "truth": load.script} for n in range(load.rounds))
        return [read(body) for body in bodies]

    gc.collect()
    gc.freeze()
    before_s = time.process_time()
    jobs = [gevent.spawn(play, stream) for stream in range(load.streams)]
    gevent.joinall(jobs, raise_error=True)
    cpu_s = time.process_time() - before_s
    print(json.dumps([cpu_s, [asdict(seen) for job in jobs for seen in job.value]]))


def measure(name: str, url: str, load: Load) -> Result:
    """Run one of the two gevent clients in a process of its own."""
    take_truth(url)
    command = [sys.executable, __file__, name, url, json.dumps(asdict(load))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    cpu_s, answers = json.loads(done.stdout.splitlines()[-1])
    seen = [Seen(**answer) for answer in answers]
    return compare(seen, take_truth(url), cpu_s * 1e6 / load.total_events)


def measure_aiperf(aiperf: AIPerf, url: str, load: Load) -> Result:
    """Run AIPerf with one worker and one record processor."""
    with tempfile.TemporaryDirectory() as folder:
        take_truth(url)
        cpu_s = aiperf.run(url, load, Path(folder))
        truth = take_truth(url)
        seen = aiperf.seen(Path(folder), truth["wall_minus_monotonic_s"])
    return compare(seen, truth, cpu_s * 1e6 / load.total_events)


def parse_cost_us(*, validate: bool) -> float:
    """Measure the parser alone: one event a read, as the network brings them."""
    from loadtest.client.sse import Expected, Reply  # noqa: PLC0415

    choice = {"index": 0, "delta": {"content": " word"}, "finish_reason": None}
    chunk = {"id": "chatcmpl-0", "model": "kimi-k3", "choices": [choice]}
    data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    reply = Reply(0.0, expected=Expected(validate_json=validate))
    before_s = time.process_time()
    for number in range(PARSED_EVENTS):
        reply.read(data, float(number))
    return (time.process_time() - before_s) * 1e6 / PARSED_EVENTS


def show(load: Load, results: dict[str, Result]) -> None:
    """Print one load."""
    print(f"\n{load.events_per_s:,.0f} events/s, load average {os.getloadavg()[0]:.1f}")
    head = (
        *("CPU µs/event", "times AIPerf", "TTFT error p50 / p99 ms"),
        *("gap error p99 ms", "server late p99 ms"),
    )
    print(f"{'':14} {head[0]:>13} {head[1]:>13} {head[2]:>24} {head[3]:>17} {head[4]:>19} judged")
    rival = results.get(AIPERF)
    for name, result in results.items():
        times = f"{rival.cpu_us_per_event / result.cpu_us_per_event:.1f}" if rival else "-"
        errors = "{:.3f} / {:.3f}".format(*result.ttft_error_ms)
        print(
            f"{name:14} {result.cpu_us_per_event:13.1f} {times:>13} {errors:>24} "
            f"{result.gap_error_p99_ms:17.3f} {result.server_late_p99_ms:19.3f} "
            f"{result.judged:6.0%}"
        )


def judge(all_results: list[dict[str, Result]]) -> None:
    """Say which targets are met."""
    ours = [results["ours"] for results in all_results]
    worst_ms = max(max(result.ttft_error_ms[1], result.gap_error_p99_ms) for result in ours)
    print(
        f"\nworst p99 error of ours {worst_ms:.3f} ms, {_met(worst_ms <= LIMIT_MS)} {LIMIT_MS} ms"
    )
    last = all_results[-1]
    cost_us = last["ours"].cpu_us_per_event
    for name, target in (("stock", TIMES_STOCK), (AIPERF, TIMES_AIPERF)):
        if name in last:
            times = last[name].cpu_us_per_event / cost_us
            print(f"events per CPU-second: {times:.1f} x {name}, {_met(times >= target)} {target}")
    costs = {
        validate: quantile([parse_cost_us(validate=validate) for _ in range(3)], 0.0)
        for validate in (False, True)
    }
    print(f"parsing alone: {costs[False]:.2f} µs/event, all JSON in full {costs[True]:.2f}")


def _met(is_met: bool) -> str:
    return "meets" if is_met else "MISSES"


def main() -> None:
    """Measure all clients under all loads."""
    aiperf = AIPerf()
    missing = aiperf.install()
    if missing:
        print(f"{AIPERF} {missing}")
    all_results = []
    with truth_server() as url:
        for load in LOADS:
            results = {name: measure(name, url, load) for name in ("ours", "stock")}
            if not missing:
                results[AIPERF] = measure_aiperf(aiperf, url, load)
            show(load, results)
            all_results.append(results)
    judge(all_results)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name, url, load]:
            client(name, url, Load(**json.loads(load)))
        case _:
            main()
