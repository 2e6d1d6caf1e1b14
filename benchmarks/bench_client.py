"""Measure the client: what an event costs, and how true its times are, beside two rivals.

One server streams events at known moments; our client, stock Locust streaming (FastHttpUser) and
the whole AIPerf pipeline read the same load, one after the other, each bound to one core, the
server to another. Errors are against what the server wrote and when, so that its own lateness is
not in them; an answer that the server wrote while it had lost its core is not judged. Ours and
stock Locust take turns, so the ratio of each pair holds although the machine's speed drifts; it is
comparable between machines, microseconds are not. About three minutes, AIPerf installed.

Exit code 1: a target is missed; 2: that cannot be judged, for AIPerf cannot be had, or others kept
the machine so busy that the server or our client had no core.
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
from statistics import median
from typing import Any

from rivals import AIPERF, AIPerf, stock_session, stock_stream
from truth import Load, Result, Seen, compare, pin, quantile, take_truth, truth_server, waited_s

GAP_S, EVENTS, PAIRS = 0.02, 40, 3
LOADS = [
    Load(streams=streams, rounds=rounds, events=EVENTS, gap_s=GAP_S)
    for streams, rounds in ((10, 5), (20, 4), (50, 4), (100, 4))
]
WITH_AIPERF = LOADS[-1]  # it takes half a minute to start and end
TIMES_AIPERF, TIMES_STOCK, LIMIT_MS = 4.0, 1.0, 1.0
LEAST_JUDGED, MOST_WAITED = 0.5, 0.01  # of the answers, and of the time
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
    """Read all streams of a load; print CPU seconds, share waited and what was seen."""
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
    before_s, waited_before_s, began_s = time.process_time(), waited_s(), time.perf_counter()
    jobs = [gevent.spawn(play, stream) for stream in range(load.streams)]
    gevent.joinall(jobs, raise_error=True)
    cpu_s = time.process_time() - before_s
    waited = (waited_s() - waited_before_s) / (time.perf_counter() - began_s)
    print(json.dumps([cpu_s, waited, [asdict(seen) for job in jobs for seen in job.value]]))


def measure(name: str, url: str, load: Load) -> Result:
    """Run one of the two gevent clients in a process of its own."""
    take_truth(url)
    command = [sys.executable, __file__, name, url, json.dumps(asdict(load))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    cpu_s, waited, answers = json.loads(done.stdout.splitlines()[-1])
    seen = [Seen(**answer) for answer in answers]
    result = compare(seen, take_truth(url), cpu_s * 1e6 / load.total_events)
    result.waited.append(waited)
    return result


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


def measure_pairs(url: str, load: Load) -> dict[str, Result]:
    """Let ours and stock Locust take turns."""
    results: dict[str, Result] = {}
    for _ in range(PAIRS):
        for name in ("ours", "stock"):
            found = measure(name, url, load)
            if name in results:
                results[name].add(found)
            else:
                results[name] = found
    return results


def ratios(results: dict[str, Result], name: str) -> list[float]:
    """Give how many times ours costs the other, run by run, sorted."""
    ours = results["ours"].cpu_us_per_event
    theirs = results[name].cpu_us_per_event
    if len(theirs) == 1:
        theirs = theirs * len(ours)
    return sorted(their / our for our, their in zip(ours, theirs, strict=True))


def show(load: Load, results: dict[str, Result]) -> None:
    """Print one load."""
    print(f"\n{load.events_per_s:,.0f} events/s, load average {os.getloadavg()[0]:.1f}")
    print(
        f"{'':14} {'CPU us/event':>13} {'times ours (range)':>20} {'TTFT error p50 / p99 ms':>24} "
        f"{'gap error p99 ms':>17} {'server late p99 ms':>19} judged  no core"
    )
    for name, result in results.items():
        times = ratios(results, name)
        spread = f"{median(times):.2f} ({times[0]:.2f} to {times[-1]:.2f})"
        first_ms = result.ttft_errors_ms
        errors = f"{quantile(first_ms, 0.5):.3f} / {quantile(first_ms, 0.99):.3f}"
        print(
            f"{name:14} {median(result.cpu_us_per_event):13.1f} {spread:>20} {errors:>24} "
            f"{quantile(result.gap_errors_ms, 0.99):17.3f} "
            f"{quantile(result.server_late_ms, 0.99):19.3f} {result.judged:6.0%}"
            + (f" {max(result.waited):8.1%}" if result.waited else "")
        )


def judge(all_results: list[dict[str, Result]]) -> int:
    """Say which targets are met; give the exit code."""
    worst_ms = max(results["ours"].worst_p99_ms for results in all_results)
    judged = min(results["ours"].judged for results in all_results)
    last = all_results[-1]
    waited = max(max(results["ours"].waited) for results in all_results)
    held = [_held("worst p99 error of ours, in ms", worst_ms, LIMIT_MS, worst_ms <= LIMIT_MS)]
    for results, load in zip(all_results, LOADS, strict=True):
        times = median(ratios(results, "stock"))
        what = f"CPU of stock Locust, times ours, {load.events_per_s:,.0f} events/s"
        held.append(_held(what, times, TIMES_STOCK, times >= TIMES_STOCK))
    if AIPERF in last:
        times = median(ratios(last, AIPERF))
        held.append(
            _held(f"CPU of {AIPERF}, times ours", times, TIMES_AIPERF, times >= TIMES_AIPERF)
        )
        ours_ms, their_ms = (last[name].worst_p99_ms for name in ("ours", AIPERF))
        held.append(_held(f"error of {AIPERF}, in ms", their_ms, ours_ms, their_ms >= ours_ms))
    costs = {
        validate: min(parse_cost_us(validate=validate) for _ in range(3))
        for validate in (False, True)
    }
    print(f"parsing alone: {costs[False]:.2f} us/event, all JSON in full {costs[True]:.2f}")
    if all(held) and judged >= LEAST_JUDGED and AIPERF in last:
        return 0
    print(
        f"the server knows when it wrote {judged:.0%} of the answers at one load "
        f"({LEAST_JUDGED:.0%} needed); others had our core for {waited:.1%} of the time in one run "
        f"({MOST_WAITED:.0%} allowed)"
    )
    cannot = judged < LEAST_JUDGED or waited > MOST_WAITED or AIPERF not in last
    return 2 if cannot else 1


def _held(what: str, found: float, target: float, is_met: bool) -> bool:
    print(f"{what}: {found:.2f}, {'meets' if is_met else 'MISSES'} {target:.2f}")
    return is_met


def main() -> int:
    """Measure all clients under all loads."""
    aiperf = AIPerf()
    missing = aiperf.install()
    if missing:
        print(f"{AIPERF} {missing}")
    all_results = []
    with truth_server() as url:
        for load in LOADS:
            results = measure_pairs(url, load)
            if load is WITH_AIPERF and not missing:
                results[AIPERF] = measure_aiperf(aiperf, url, load)
            show(load, results)
            all_results.append(results)
    return judge(all_results)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name, url, load]:
            client(name, url, Load(**json.loads(load)))
        case _:
            sys.exit(main())
