"""Time `k3fleet render` for 200 racks; the target is 20 s on 2 cores.

Run: python benchmarks/bench_render.py [RACKS]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from click.testing import CliRunner

from cli.render import render

REGIONS = 10
TARGET_S = 20.0


def fleet_text(racks: int) -> str:
    """Write a fleet file with the racks spread over the regions."""
    lines = ["apiVersion: k3fleet/v1", "name: bench", "release: vllm-tp8-dcp8", "regions:"]
    for region in range(min(REGIONS, racks)):
        lines += [f"  - name: region-{region}", "    racks:"]
        lines += [f"      - id: g{region}-r{rack:03d}" for rack in range(region, racks, REGIONS)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Render once into a scratch folder and print the times."""
    racks = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as scratch:
        fleet_file = Path(scratch, "fleet.yaml")
        fleet_file.write_text(fleet_text(racks))
        wall, cpu = time.perf_counter(), time.process_time()
        result = CliRunner().invoke(
            render, [str(fleet_file), "--out", str(Path(scratch, "out"))], catch_exceptions=False
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert result.exit_code == 0, result.output
        written = sum(file.stat().st_size for file in Path(scratch, "out").rglob("*.yaml"))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"render of {racks} racks: {wall:.1f} s (target {TARGET_S:.0f} s), {cpu:.1f} s CPU, "
        f"{written / 1e6:.1f} MB written, peak {peak_mib:.0f} MiB"
    )


if __name__ == "__main__":
    main()
