"""Measure what the cache oracle costs: CPU per step against the reading of its answer, and memory.

Traffic has the sizes of `interactive_agent`: 14K tokens shared, sessions that start at 24.5K and
grow by 1.9K a step to 160K, 457 tokens of output, 9 replicas in each of 2 regions, every session on
one replica. The rival is the oracle of before: a dict of how often a block was sent and a set of
those completed, per region, read block by block; it knows no replica and no limit. Each variant
runs in a process of its own, to a million live blocks. Reading answers is measured with the
truth server of `bench_client.py`: a generator does more than that, so the share is an upper bound.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import bench_client
import psutil
from truth import Load, truth_server

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from loadtest.cache.oracle import CacheOracle, OracleRules
from loadtest.prompt.prompts import Prompt

BLOCK = 128
BLOCKS = 1_000_000
SHARED, START, GROWTH, LONGEST, OUTPUT = 14_000, 24_500, 1_900, 160_000, 457
REGIONS, REPLICAS, SESSIONS = ("us", "eu"), 9, 900
CPU_LIMIT, BYTES_LIMIT = 0.05, 200
READ = Load(streams=100, rounds=4, events=40, gap_s=0.02)
Step = tuple[str, str, Prompt]


def steps(fresh: Callable[[], int]) -> Iterator[Step]:
    """Play sessions in turns, without end: region, worker, prompt with its packed hashes."""
    shared = array("Q", (fresh() for _ in range(SHARED // BLOCK)))
    histories: dict[int, array[int]] = {}
    for turn in count():
        number = turn % SESSIONS
        history = histories.get(number)
        if history is None or len(history) * BLOCK > LONGEST:
            history = histories[number] = array("Q", shared)
            grown = (START - SHARED) // BLOCK
        else:
            grown = GROWTH // BLOCK
        history.extend(fresh() for _ in range(grown))
        blocks = memoryview(history.tobytes()).cast("Q")
        prompt = Prompt(token_count=len(blocks) * BLOCK + 50, blocks=blocks)  # type: ignore[arg-type]
        yield REGIONS[number % len(REGIONS)], f"{number % REPLICAS}", prompt


@dataclass
class Rival:
    """The oracle of before, as its definition was written down."""

    sent: defaultdict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    completed: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def send(self, region: str, prompt: Prompt) -> int:
        """Count the known prefix, and that it was sent."""
        known, sent = self.completed[region], self.sent[region]
        reusable = 0
        for block in prompt.blocks:
            if block not in known:
                break
            reusable += 1
        for block in prompt.blocks:
            sent[block] = sent.get(block, 0) + 1
        return min(reusable, (prompt.token_count - 1) // BLOCK) * BLOCK

    def complete(self, region: str, prompt: Prompt, _worker: str) -> None:
        """Remember the blocks."""
        self.completed[region].update(prompt.blocks)


class Nothing:
    """Costs what the traffic itself costs."""

    def send(self, region: str, prompt: Prompt) -> None:
        """Do nothing."""

    def complete(self, region: str, prompt: Prompt, worker: str) -> None:
        """Do nothing."""


VARIANTS: dict[str, Callable[[], Any]] = {
    "nothing": Nothing,
    "rival": Rival,
    "blocks": lambda: CacheOracle(BLOCK),
    "unit 1536": lambda: CacheOracle(BLOCK, OracleRules(unit=1536)),
    "blocks, capacity and ttl": lambda: CacheOracle(
        BLOCK, OracleRules(capacity_blocks=204_000, ttl_s=1e9), time.monotonic
    ),
    "snapshots, full cache": lambda: CacheOracle(
        BLOCK,
        OracleRules(reuse="snapshots", snapshot_cost_blocks=254, capacity_blocks=40_000),
        time.monotonic,
    ),
}


def run(variant: str) -> dict[str, float]:
    """Play until so many blocks were made; in a process of its own."""
    oracle = VARIANTS[variant]()
    before = psutil.Process().memory_info().rss
    spent, played, last = 0.0, 0, 0

    def fresh() -> int:
        nonlocal last
        last += 1
        return last * 0x9E3779B97F4A7C15 % (1 << 64)  # spread as hashes are

    for region, worker, prompt in steps(fresh):
        began = time.process_time()
        oracle.send(region, prompt)
        oracle.complete(region, prompt, worker)
        spent += time.process_time() - began
        played += 1
        if last >= BLOCKS:
            break
    return {
        "us_per_step": spent / played * 1e6,
        "rss": psutil.Process().memory_info().rss - before,
        "blocks": last,
        "steps": played,
    }


def reading_us() -> float:
    """Measure the CPU of reading one answer, at the rate where an event costs least."""
    with truth_server() as url:
        return bench_client.measure("ours", url, READ).cpu_us_per_event[0] * OUTPUT


def main() -> int:
    """Print the table; exit 1 when our oracle costs more than it may."""
    if len(sys.argv) > 1:
        print(json.dumps(run(sys.argv[1])))
        return 0
    reading = [reading_us()]
    found = {}
    for variant in VARIANTS:
        command = [sys.executable, __file__, variant]
        found[variant] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    reading.append(reading_us())
    print(
        f"reading an answer of {OUTPUT} events, each its own packet: {min(reading):,.0f} us of "
        f"CPU, measured before and after: {reading[0]:,.0f} and {reading[1]:,.0f}; "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    return int(not show(found, min(reading)))


def show(found: dict[str, dict[str, float]], reading: float) -> bool:
    """Print the table; tell whether ours is within the limits."""
    print(f"{'variant':26} {'us/step':>9} {'of rival':>9} {'share':>7} {'bytes/block':>12}")
    held = True
    for variant, one in found.items():
        share = one["us_per_step"] / (one["us_per_step"] + reading)
        size = (one["rss"] - found["nothing"]["rss"]) / one["blocks"]
        of_rival = one["us_per_step"] / found["rival"]["us_per_step"]
        print(f"{variant:26} {one['us_per_step']:9.0f} {of_rival:9.2f} {share:7.1%} {size:12.0f}")
        is_ours = variant not in {"nothing", "rival"}
        held &= not is_ours or (share <= CPU_LIMIT and size <= BYTES_LIMIT)
    print(f"{'within' if held else 'ABOVE'} {CPU_LIMIT:.0%} and {BYTES_LIMIT} bytes per live block")
    return held


if __name__ == "__main__":
    sys.exit(main())
