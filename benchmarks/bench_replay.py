"""Measure reading recorded sessions, and writing their prompts.

Reading is compared with a plain parse of the same JSON, so the ratio says what checking and
indexing cost; writing is counted in calls and prompt tokens per second at full length. Recordings
of a folder are used when one is given (`python benchmarks/bench_replay.py FOLDER`), else ones of
the same shape are made: 18 sessions that grow to 150K tokens, and 100,000 requests of a chat.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import orjson

from loadtest.prompt.words import Vocabulary
from loadtest.replay.formats import Source, load_traces
from loadtest.replay.recording import Trace
from loadtest.replay.traces import Craft, TraceTraffic
from loadtest.traffic.sessions import Scale, Seeds

RATIO_LIMIT = 12.0  # times a plain parse; above it a reader has become careless
LEAST_CALLS_PER_S = 100.0  # of 85K tokens each, on one core
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def main() -> int:
    """Print the figures; 1 when a limit is not held."""
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _sessions(made / "agentx")
        requests = _requests(made / "requests.jsonl")
        held = _reading("sessions", folder)
        held &= _writing(load_traces(Source(folder)))
        held &= _reading("requests", requests)
        held &= _writing(load_traces(Source(requests))[:500])
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")
    return 0 if held else 1


def _reading(what: str, path: Path) -> bool:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    contents = [file.read_bytes() for file in files if file.suffix in {".json", ".jsonl"}]
    plain_s = _best(lambda: [orjson.loads(line) for text in contents for line in text.splitlines()])
    read_s = _best(lambda: load_traces(Source(path)))
    size = sum(map(len, contents)) / 1e6
    ratio = read_s / plain_s
    print(
        f"read {what}: {size:.1f} MB in {read_s:.2f} s, {size / read_s:.0f} MB/s, "
        f"{ratio:.1f} times a plain parse (limit {RATIO_LIMIT})"
    )
    return ratio <= RATIO_LIMIT


def _writing(traces: list[Trace]) -> bool:
    words = [f"{a}{b}x" for a in LETTERS for b in LETTERS]
    craft = Craft(
        vocabulary=Vocabulary(words, range(len(words))),
        scale=Scale(tokens=1.0, time=1.0),
        seeds=Seeds(seed=1, salt="bench"),
    )
    source = TraceTraffic(traces, craft)
    started_s = perf_counter()
    calls = tokens = 0
    for number, trace in enumerate(traces):
        for call, _ in zip(trace.calls, source.session(number), strict=True):
            calls += 1
            tokens += call.input_tokens
    took_s = perf_counter() - started_s
    print(
        f"write: {calls} calls of {tokens / calls / 1000:.0f}K tokens, "
        f"{calls / took_s:.0f} calls/s (limit {LEAST_CALLS_PER_S:.0f}), "
        f"{tokens / took_s / 1e6:.1f} M prompt tokens/s"
    )
    return calls / took_s >= LEAST_CALLS_PER_S


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        started_s = perf_counter()
        work()
        times.append(perf_counter() - started_s)
    return min(times)


def _sessions(folder: Path) -> Path:
    rng = random.Random(1)  # noqa: S311 - no secret
    folder.mkdir()
    for number in range(18):
        ids, requests, next_id = list(range(380)), [], 380
        for turn in range(60):
            length = len(ids) * 64 + rng.randrange(64)
            call = {"t": turn * 60.0, "type": "s", "in": length, "out": 440, "api_time": 6.0}
            requests.append({**call, "hash_ids": list(ids), "input_types": ["tool_result"]})
            grown = rng.randrange(10, 60)
            ids += range(next_id, next_id + grown)
            next_id += grown
        session = {"id": f"s{number}", "block_size": 64, "requests": requests}
        session |= {"tool_tokens": 11_500, "system_tokens": 2_800}
        (folder / f"s{number:02}.json").write_text(json.dumps(session), encoding="utf-8")
    return folder


def _requests(path: Path) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for number in range(100_000):
            ids = [0, *(number // 8 * 32 + place for place in range(1, 22)), 10**7 + number]
            row = {"timestamp": number * 30, "input_length": 11_700, "output_length": 343}
            file.write(json.dumps({**row, "hash_ids": ids}) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
