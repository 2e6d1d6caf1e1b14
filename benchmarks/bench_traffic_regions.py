"""Measure what it costs those who receive a region's sessions: in paced slices, and at once.

A lab of two regions with a replica each. What is counted are the calls of the receiver's own
sessions, before and while the others come; each round has sessions that no cache knows.

Run it with `python benchmarks/bench_traffic_regions.py`, in a network namespace of its own
(`tests/support/namespace.py`). Mocked engines compute a prompt in the time that real ones take;
everything else takes as long as this machine lets it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from cli_runs import Here
from patience import wait_until
from region_sessions import Seen, Sessions, Talk, busiest, seen
from rollout_lab import Lab

from fleet.load import load_fleet

EAST, WEST = "east", "west"
FLEET = """\
apiVersion: k3fleet/v1
name: regions
release: vllm-tp8-dcp8
frontends: {replicas: 1}
regions:
  - {name: east, gateway_address: 10.0.0.1:8080, racks: [{id: east-r01, replicas: 1}]}
  - {name: west, gateway_address: 10.0.0.2:8080, racks: [{id: west-r01, replicas: 1}]}
"""
# Contexts of about 20,000 real tokens, since prompts stand for 16 times as many.
STRATEGY = """\
apiVersion: k3fleet/v1
assumed: {sessions_per_replica: 20, context_tokens: 20000, prefill_tokens_per_s: 21700}
"""
SESSIONS = {EAST: 10, WEST: 20}
WORDS, PAUSE_S, WINDOW_S, BEFORE_S = 150, 4.0, 10.0, 30.0
PATIENCE_S = 300.0  # only ends what hangs


def measured(here: Here, talk: Talk, *words: str) -> None:
    """Drain the west once, and print what the east's own sessions saw before and meanwhile."""
    sessions = Sessions(talk)
    with sessions.running(SESSIONS):
        wait_until(
            lambda: all(len(sessions.latest(r)) == n for r, n in SESSIONS.items()),
            "not every session has been answered",
            PATIENCE_S,
        )
        warm = time.monotonic()
        time.sleep(BEFORE_S)
        began = time.monotonic()
        moved = here.run("traffic", "drain", "fleet.yaml", WEST, "--yes", *words)
        told = time.monotonic()
        wait_until(
            lambda: {c.region for c in sessions.latest(WEST).values()} == {EAST},
            "not all sessions have moved",
            PATIENCE_S,
        )
        ended = time.monotonic()
    if moved.code or sessions.faults:
        raise SystemExit(f"{moved.err}{sessions.faults[:3]}")
    most = busiest(sessions.calls, EAST, WINDOW_S, began)
    calls = sessions.calls
    cold = sum(c.cold_tokens for c in calls if c.region == EAST and c.began_s >= began)
    print(f"{' '.join(words)}: told in {told - began:.0f} s, all there after {ended - began:.0f} s")
    print(f"  cold tokens {cold}, {most} of them in the busiest {WINDOW_S:.0f} s")
    print(f"  before     {line(seen(calls, EAST, warm, began))}")
    print(f"  meanwhile  {line(seen(calls, EAST, began, ended))}")
    print(f"  load average {os.getloadavg()[0]:.1f}", flush=True)


def line(found: Seen) -> str:
    """Tell what was seen."""
    return (
        f"{found.calls} calls, hit {found.hit:.3f}, TTFT p50 {found.ttft_p50_s:.2f} s, "
        f"p95 {found.ttft_p95_s:.2f} s, most {found.ttft_most_s:.2f} s"
    )


def main() -> None:
    """Bring the lab up, measure both ways, and take it down."""
    with tempfile.TemporaryDirectory() as folder:
        here = Here(Path(folder))
        (here.folder / "fleet.yaml").write_text(FLEET)
        (here.folder / "strategy.yaml").write_text(STRATEGY)
        up = here.run("lab", "up", "fleet.yaml", "-o", "json")
        try:
            lab = Lab(json.loads(up.out), load_fleet(here.folder / "fleet.yaml").model.repo)
            talk = Talk(
                model=lab.model,
                gateways={n: region["gateway_url"] for n, region in lab.told["regions"].items()},
                regions={w: c.region for c in lab.clusters for w in c.workers().values()},
                words=WORDS,
                pause_s=PAUSE_S,
            )
            for round_, how in (("a", "--strategy"), ("b", "--at-once")):
                words = [how, "strategy.yaml"] if how == "--strategy" else [how]
                measured(here, replace(talk, salt=round_), *words)
                here.run("traffic", "restore", "fleet.yaml", WEST, "--yes", "--at-once")
        finally:
            here.run("lab", "down", "fleet.yaml")


if __name__ == "__main__":
    main()
