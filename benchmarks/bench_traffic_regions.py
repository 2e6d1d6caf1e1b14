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
from region_sessions import EAST, FLEET, WEST, Seen, Sessions, Talk, busiest, seen, talk_in
from rollout_lab import PATIENCE_S, Lab

from fleet.load import load_fleet

# Contexts of about 20,000 real tokens, since prompts stand for 16 times as many.
STRATEGY = """\
apiVersion: k3fleet/v1
assumed: {sessions_per_replica: 20, context_tokens: 20000, prefill_tokens_per_s: 21700}
"""
SESSIONS = {EAST: 10, WEST: 20}
WORDS, PAUSE_S, WINDOW_S, BEFORE_S = 150, 4.0, 10.0, 30.0


def measured(here: Here, talk: Talk, *words: str) -> None:
    """Drain the west once, and print what the east's own sessions saw before and meanwhile."""
    sessions = Sessions(talk)
    with sessions.running(SESSIONS):
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
            talk = talk_in(lab, WORDS, PAUSE_S)
            for round_, how in (("a", "--strategy"), ("b", "--at-once")):
                words = [how, "strategy.yaml"] if how == "--strategy" else [how]
                measured(here, replace(talk, salt=round_), *words)
                here.run("traffic", "restore", "fleet.yaml", WEST, "--yes", "--at-once")
        finally:
            here.run("lab", "down", "fleet.yaml")


if __name__ == "__main__":
    main()
