"""Measure `k3fleet preview` and `k3fleet up` of 4 racks, 36 replicas, against kubectl.

The rival is `kubectl apply --server-side` of the same objects, rendered to files,
in the same run: it neither plans, nor guards, nor remembers. Each side gets an API
server of its own, fresh and empty. The ratio is comparable between machines, the
seconds are not. On a machine that does other work neither is: there the seconds of
processor time that a command and what it starts take say more. Run it in a network
namespace of its own:
`python tests/support/namespace.py python benchmarks/bench_up.py`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from api_planes import PlaneSpec, running

from cli.wiring import tool_surroundings
from lab.toolchain import ensure_tools

FLEET = {
    "apiVersion": "k3fleet/v1",
    "name": "bench",
    "release": "vllm-tp8-dcp8",
    "regions": [{"name": "us-east", "racks": [{"id": f"use1-r0{n}"} for n in range(1, 5)]}],
}
LIMIT = 2.0  # times the rival
SPEC = PlaneSpec(version=(1, 37), kinds="ours")
K3FLEET = (sys.executable, "-m", "cli.main")


class Quiet:
    """Progress of a look at tools that are all there."""

    def step(self, name: str) -> None:
        """Say nothing."""

    def update(self, text: str) -> None:
        """Say nothing."""


class Took(NamedTuple):
    """What a command took; children that it does not wait for are not in `processor_s`."""

    seconds: float
    processor_s: float


def processor_s() -> float:
    """Say how much processor time all ended commands took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(*words: str | Path, cwd: Path, env: dict[str, str]) -> Took:
    """Run a command to its end, and say what it took."""
    began, used = time.perf_counter(), processor_s()
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return Took(time.perf_counter() - began, processor_s() - used)


def rival(folder: Path, env: dict[str, str]) -> tuple[Took, Took]:
    """Apply both layers with kubectl: anew, and once more over what is there."""
    timed(*K3FLEET, "render", "fleet.yaml", "--out", "manifests", cwd=folder, env=env)

    def apply() -> Took:
        words = ("kubectl", "apply", "--server-side", "-f")
        layers = [folder / "manifests/us-east" / layer for layer in ("platform", "serving")]
        namespace = next(layers[0].glob("*amespace*"))
        took = [timed(*words, path, cwd=folder, env=env) for path in (namespace, *layers)]
        return Took(*map(sum, zip(*took, strict=True)))

    return apply(), apply()


def ours(folder: Path, env: dict[str, str]) -> tuple[Took, Took, Took]:
    """Bring both layers up; preview them; bring them up again with nothing to do."""
    up = (*K3FLEET, "up", "fleet.yaml", "--yes", "-o", "json")
    first = timed(*up, cwd=folder, env=env)
    look = timed(*K3FLEET, "preview", "fleet.yaml", "-o", "json", cwd=folder, env=env)
    return first, look, timed(*up, cwd=folder, env=env)


def main() -> int:
    """Print the times, and the ratios to the rival; 1 when `up` of a new region takes too long."""
    cache_dir, environ = tool_surroundings()
    tools = ensure_tools(cache_dir=cache_dir, environ=environ, progress=Quiet())
    results = []
    for measure in (rival, ours):
        with tempfile.TemporaryDirectory() as name, running(SPEC, Path(name)) as plane:
            folder = Path(name)
            (folder / "fleet.yaml").write_text(yaml.safe_dump(FLEET))
            config = str(plane.control.kubeconfig)
            path = f"{tools.bin_dir}:{os.environ['PATH']}"
            results.append(measure(folder, {**os.environ, "PATH": path, "KUBECONFIG": config}))
    (apply, again), (up, preview, same) = results
    rows = [
        ("kubectl apply --server-side, new region", apply, apply),
        ("k3fleet up, new region", up, apply),
        ("kubectl apply --server-side, nothing to do", again, again),
        ("k3fleet preview, nothing to do", preview, again),
        ("k3fleet up, nothing to do", same, again),
    ]
    for name, took, other in rows:
        ratio = took.seconds / other.seconds
        print(
            f"{name:<44} {took.seconds:6.1f} s {ratio:6.2f}   {took.processor_s:6.1f} s processor"
        )
    print(f"load average {os.getloadavg()[0]:.1f}; limit {LIMIT} times the rival for a new region")
    return int(up.seconds > LIMIT * apply.seconds)


if __name__ == "__main__":
    sys.exit(main())
