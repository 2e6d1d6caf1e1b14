"""Time `k3fleet render` for 200 racks, 1,800 replicas; the target is 20 s on one core and 1 GiB.

Once with the defaults, and once with all that a region can have. CPU seconds are what one core
takes: rendering is one thread.

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
TARGET_MIB = 1024
EVERYTHING = f"""\
secrets: {{hf_token: hf, gateway_keys: keys, loadtest_key: load, external_store: vault}}
weights_stage: {{image: "any@sha256:{"0" * 64}"}}
loadtest: {{image: "any@sha256:{"0" * 64}", tokenizer_dir: /opt/kimi}}
kernel_cache: {{claim: kernels}}"""


def fleet_text(racks: int, more: str = "") -> str:
    """Write a fleet file with the racks spread over the regions."""
    lines = ["apiVersion: k3fleet/v1", "name: bench", "release: vllm-tp8-dcp8"]
    lines += [*filter(None, [more]), "regions:"]
    for region in range(min(REGIONS, racks)):
        lines += [f"  - name: region-{region}", "    racks:"]
        lines += [f"      - id: g{region}-r{rack:03d}" for rack in range(region, racks, REGIONS)]
    return "\n".join(lines) + "\n"


def measure(racks: int, name: str, more: str) -> bool:
    """Render once into a scratch folder, print the times; tell whether the targets are met."""
    with tempfile.TemporaryDirectory() as scratch:
        fleet_file = Path(scratch, "fleet.yaml")
        fleet_file.write_text(fleet_text(racks, more))
        wall, cpu = time.perf_counter(), time.process_time()
        result = CliRunner().invoke(
            render, [str(fleet_file), "--out", str(Path(scratch, "out"))], catch_exceptions=False
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert result.exit_code == 0, result.output
        files = [file.stat().st_size for file in Path(scratch, "out").rglob("*.yaml")]
        replicas = len(list(Path(scratch, "out").rglob("20-leaderworkerset-*.yaml")))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"render of {racks} racks, {replicas} replicas, {name}: {cpu:.1f} s CPU "
        f"(target {TARGET_S:.0f}), {wall:.1f} s, {len(files)} files, "
        f"{sum(files) / 1e6:.1f} MB, peak {peak_mib:.0f} MiB (target {TARGET_MIB})"
    )
    return cpu <= TARGET_S and peak_mib <= TARGET_MIB


def main() -> int:
    """Render both ways; 1 when a target is missed."""
    racks = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    held = [measure(racks, "defaults", ""), measure(racks, "everything", EVERYTHING)]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
