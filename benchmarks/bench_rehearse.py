"""Measure a warm rehearsal of the demo fleet: time, time until the lab serves, peak memory.

The rival is the bare Kubernetes of the same run: real control planes with Ready nodes and nothing
in them (step `cluster`). How many times longer a whole serving fleet takes is comparable between
machines, the seconds are not. The limits are for 2 cores and 24 GiB.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "fleets" / "demo.yaml"
UP_STEPS = ("tools", "cluster", "provision", "packing", "engines")
LIMIT_RUN_S, LIMIT_UP_S, LIMIT_MEMORY_GIB = 300.0, 90.0, 12.0


def main() -> int:
    """Run the demo once with 60 s of traffic, print what it took; 1 when a limit is passed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cli.main", "rehearse", str(DEMO), "-o", "json"]
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "--work-dir", folder, "--duration", "60s"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        run_s = time.perf_counter() - began
    if not done.stdout:
        raise SystemExit(f"the rehearsal ended with code {done.returncode} and no report")
    report = json.loads(done.stdout)
    seconds = {step["name"]: step["seconds"] for step in report["steps"]}
    up_s = sum(seconds[name] for name in UP_STEPS)
    bare_s = seconds["cluster"]
    generator = report["load"]["generator"]
    rows = [
        ("bare control planes, nodes Ready", bare_s, None),
        ("lab up, 18 replicas Ready", up_s, LIMIT_UP_S),
        ("whole rehearsal, 60 s of traffic", run_s, LIMIT_RUN_S),
    ]
    print(f"verdict {report['verdict']}, {report['load']['requests']} requests")
    for name, value_s, limit_s in rows:
        limit = f"limit {limit_s:.0f} s" if limit_s else "rival"
        print(f"{name:<34} {value_s:6.1f} s {value_s / bare_s:6.2f}   {limit}")
    peak_gib = report["machine"]["peak_memory_gib"]
    print(f"peak memory {peak_gib} GiB, limit {LIMIT_MEMORY_GIB:.0f} GiB")
    cpu, machine = generator["cpu_share"], generator["machine_cpu_share"]
    print(f"generator {cpu:.2f} of one core; all cores {machine:.2f} busy")
    held = up_s <= LIMIT_UP_S and run_s <= LIMIT_RUN_S and peak_gib <= LIMIT_MEMORY_GIB
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
