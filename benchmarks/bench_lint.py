"""Time the linter on 200 rendered racks; the target is 40 s on one core and 1.5 GiB.

The rival is `kubernetes-validate` on the same objects: the schema check alone,
without any of our rules and without the custom kinds, object by object. It is
timed on a sample and scaled up.

Run: python benchmarks/bench_lint.py [RACKS]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import kubernetes_validate
import yaml
from bench_render import fleet_text
from click.testing import CliRunner

from cli.lint import lint
from cli.render import render

TARGET_S = 40.0
TARGET_MIB = 1536
SAMPLE = 100
CUSTOM = ("LeaderWorkerSet", "ComputeDomain", "PodMonitor", "PrometheusRule")


def rival_s(folder: Path) -> float:
    """Time kubernetes-validate, scaled from a sample to all core objects."""
    files = sorted(folder.rglob("*.yaml"))
    core = [file for file in files if not any(kind.lower() in file.name for kind in CUSTOM)]
    sample = core[:: max(1, len(core) // SAMPLE)]
    started = time.process_time()
    for file in sample:
        kubernetes_validate.validate(
            yaml.load(file.read_text(), Loader=yaml.CSafeLoader), "1.37", strict=True
        )
    return (time.process_time() - started) * len(core) / len(sample)


def main() -> None:
    """Render into a scratch folder, lint it, and print the times."""
    racks = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as scratch:
        fleet_file, out = Path(scratch, "fleet.yaml"), Path(scratch, "out")
        fleet_file.write_text(fleet_text(racks))
        runner = CliRunner()
        made = runner.invoke(render, [str(fleet_file), "--out", str(out)], catch_exceptions=False)
        assert made.exit_code == 0, made.output
        cpu = time.process_time()
        result = runner.invoke(lint, [str(out), "--fleet", str(fleet_file)], catch_exceptions=False)
        cpu = time.process_time() - cpu
        assert result.exit_code == 0, result.output[-2000:]
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rival = rival_s(out)
    print(
        f"lint of {racks} racks: {cpu:.1f} s CPU (target {TARGET_S:.0f} s), "
        f"peak {peak_mib:.0f} MiB with the rendering (target {TARGET_MIB} MiB); "
        f"kubernetes-validate on the core objects alone {rival:.1f} s: {cpu / rival:.2f} of it"
    )


if __name__ == "__main__":
    main()
