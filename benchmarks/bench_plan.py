"""Measure `k3fleet plan` of 200 racks against a plain `yaml.safe_load` of the same file.

The rivals do less: they read the file and check nothing. Run it with
`python benchmarks/bench_plan.py`; the ratio is comparable between machines, the
seconds are not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from fleet.load import load_fleet
from fleet.plan import make_plan, plan_json

RACKS, REGIONS, REPEATS = 200, 4, 5
LIMIT_S = 1.0  # of the whole command, with the start of Python


def fleet_text() -> str:
    """Write a fleet of 200 racks, some of them with broken nodes."""
    lines = ["apiVersion: k3fleet/v1", "name: bench", "release: vllm-tp8-dcp8", "regions:"]
    for region in range(REGIONS):
        lines += [f"  - name: region-{region}", "    racks:"]
        for rack in range(RACKS // REGIONS):
            lines.append(f"      - id: g{region}-r{rack:03d}")
            lines.append(f"        healthy_nodes: {18 - rack % 3}")
    return "\n".join(lines) + "\n"


def best_s(action: Callable[[], object]) -> float:
    """Return the shortest of several runs: the one least disturbed by the machine."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    """Print the times, and the ratios to the rival; 1 when the command takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.yaml"
        path.write_text(fleet_text())
        command = [sys.executable, "-m", "cli.main", "plan", str(path)]
        rival_s = best_s(lambda: yaml.safe_load(path.read_text()))
        fast_s = best_s(lambda: yaml.load(path.read_text(), Loader=yaml.CSafeLoader))
        plan_s = best_s(lambda: plan_json(make_plan(load_fleet(path))))
        command_s = best_s(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    print(f"yaml.safe_load of {RACKS} racks   {rival_s:.3f} s   1.00")
    print(f"the same with libyaml          {fast_s:.3f} s   {fast_s / rival_s:.2f}")
    print(f"load, check and plan           {plan_s:.3f} s   {plan_s / rival_s:.2f}")
    print(f"k3fleet plan, whole command    {command_s:.3f} s   limit {LIMIT_S} s")
    return int(command_s > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
