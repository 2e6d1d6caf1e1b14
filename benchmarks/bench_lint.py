"""Time the linter: 200 rendered racks in 40 s on one core and 1.5 GiB, one recipe in 1 s.

The recipe comes first, after the imports and before any table or schema was read.

The rival is `kubernetes-validate` on the same objects: the schema check alone,
without any of our rules and without the custom kinds, object by object. It is
timed on a sample and scaled up.

Run: python benchmarks/bench_lint.py [RACKS]
"""

from __future__ import annotations

import contextlib
import io
import resource
import sys
import tempfile
import time
from pathlib import Path

import kubernetes_validate
import yaml
from bench_render import fleet_text

from cli.main import main
from fleet.errors import EXIT_GO, EXIT_NO_GO

RECIPE = Path(__file__).parents[1] / "tests/cases/lint/foreign/generator.yaml"
RECIPE_TARGET_S = 1.0
TARGET_S = 40.0
TARGET_MIB = 1536
SAMPLE = 100
CUSTOM = ("LeaderWorkerSet", "ComputeDomain", "PodMonitor", "PrometheusRule")


def run_s(*arguments: str, expected: int) -> float:
    """Time a command, which must end as expected."""
    output = io.StringIO()
    started = time.process_time()
    with contextlib.redirect_stdout(output):
        code = main(arguments)
    took_s = time.process_time() - started
    assert code == expected, output.getvalue()[-2000:]
    return took_s


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


def bench() -> int:
    """Render into a scratch folder, lint it, print the times; 1 when a target is missed."""
    racks = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    recipe_s = run_s("lint", str(RECIPE), expected=EXIT_NO_GO)
    with tempfile.TemporaryDirectory() as scratch:
        fleet_file, out = Path(scratch, "fleet.yaml"), Path(scratch, "out")
        fleet_file.write_text(fleet_text(racks))
        run_s("render", str(fleet_file), "--out", str(out), expected=EXIT_GO)
        lint_s = run_s("lint", str(out), "--fleet", str(fleet_file), expected=EXIT_GO)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rival = rival_s(out)
    print(f"lint of one recipe: {recipe_s:.2f} s CPU (target {RECIPE_TARGET_S:.0f} s)")
    print(
        f"lint of {racks} racks: {lint_s:.1f} s CPU (target {TARGET_S:.0f} s), "
        f"peak {peak_mib:.0f} MiB with the rendering (target {TARGET_MIB} MiB); "
        f"kubernetes-validate on the core objects alone {rival:.1f} s: {lint_s / rival:.2f} of it"
    )
    held = recipe_s <= RECIPE_TARGET_S and lint_s <= TARGET_S and peak_mib <= TARGET_MIB
    return int(not held)


if __name__ == "__main__":
    sys.exit(bench())
