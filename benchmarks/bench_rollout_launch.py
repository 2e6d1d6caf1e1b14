"""Roll a release out in a lab of two regions under load, and say what users and the clock saw.

Proof 1 of the rollout: from release A to B under Locust. It says how many requests failed, and how
many of them were streams that outlived the drain budget; the fewest replicas that served, by the
API servers and by the frontends; the dip of the hit rate; what a step's phases took; and how far
the pure model is off, given what the canary's step has measured and given the medians of all steps
(the limit is for these). The rival of the estimate is the naive plan: all replicas one by one.

Run it in a network namespace of its own, as it takes minutes and two cores:
`python tests/support/namespace.py python benchmarks/bench_rollout_launch.py --replicas 9`.
Seconds are of this machine and its load, which is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import yaml

from fleet.errors import EXIT_CONFIG
from fleet.load import load_fleet, load_release
from fleet.rollout.measured import Measured, measured
from fleet.rollout.plan import RolloutPlan, plan_rollout
from fleet.rollout.record import Started
from fleet.rollout.story import story
from fleet.rollout.strategy import Strategy, load_strategy
from infra.rollout.cluster import Cluster
from infra.rollout.journal import Journal
from lab.network import loopback_address

K3FLEET = (sys.executable, "-m", "cli.main")
LOOK_EVERY_S = 0.5
WARM_REQUESTS = 60  # before the rollout: a hit rate that can dip
CALM_S = 30.0  # after it: time to come back
LOAD_S = 7200  # more than any rollout here; it is ended, and what there is is judged
PATIENCE_S = 600.0
DRAIN_S = 30.0
OFF_LIMIT = 0.10
NO_LOAD = 10**15  # bytes per second: a mocker loads no weights, its start is all warm-up
RELEASES = {"a": {}, "b": {"max_num_seqs": 48}}


@dataclass
class Seen:
    """The fewest replicas that served, by who says so."""

    api: dict[str, int] = field(default_factory=dict)
    frontends: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """The folder of a run, and how commands are run there."""

    folder: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        command = [*K3FLEET, *words, "--work-dir", str(self.folder / "work")]
        with (self.folder / f"{'-'.join(words[:2])}.err").open("w") as err:
            return subprocess.Popen(
                command, cwd=self.folder, stdout=subprocess.PIPE, stderr=err, text=True
            )

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command to its end."""
        process = self.start(*words)
        out, _ = process.communicate()
        return process.returncode, out


def write_files(folder: Path, replicas: int, *, min_requests: int) -> None:
    """Write fleet, releases and strategy."""
    for name, fields in RELEASES.items():
        release = {"extends": "vllm-tp8-dcp8", "name": name, "drain_s": f"{DRAIN_S:.0f}s"}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**release, **fields}))
    racks = [{"name": r, "racks": [{"id": f"{r[0]}01", "replicas": replicas}]} for r in REGIONS]
    fleet = {"apiVersion": "k3fleet/v1", "name": "launch", "release": "./a.yaml", "regions": racks}
    (folder / "fleet.yaml").write_text(yaml.safe_dump({**fleet, "frontends": {"replicas": 1}}))
    gates = {"min_requests": min_requests, "min_replica_requests": 3, "max_ttft_ratio": 4.0}
    waves = [{"scope": scope, "soak": "5s", "gates": dict(gates)} for scope in SCOPES]
    floor = (replicas - 1) / replicas - 0.01
    strategy = {
        "apiVersion": "k3fleet/v1", "waves": waves, "floor": {"rack": floor, "region": floor},
        "at_once": {"per_rack": 1, "per_region": 1, "regions": 2},
        "deadlines": {"ready": "10m", "registered": "5m", "gates": "10m"},
    }  # fmt: skip
    (folder / "strategy.yaml").write_text(yaml.safe_dump(strategy))


REGIONS = ("east", "west")
SCOPES = ("canary", "rest")  # so both regions move at the same time


def clusters(told: dict[str, Any]) -> list[Cluster]:
    """Give the API servers of a lab."""
    return [
        Cluster(
            region=name,
            kubeconfig=Path(region["kubeconfig"]),
            namespace=told["namespace"],
            reach=loopback_address,
        )
        for name, region in told["regions"].items()
    ]


@contextmanager
def watched(told: dict[str, Any]) -> Iterator[Seen]:
    """Count who serves, by the API servers and by the frontends, while the block runs."""
    seen, stop = Seen(), threading.Event()

    def look(cluster: Cluster) -> None:
        [frontend] = cluster.frontends()
        with httpx2.Client(trust_env=False, timeout=30) as http:
            while not stop.wait(LOOK_EVERY_S):
                _least(seen.api, cluster.region, len(cluster.in_routing()))
                instances = http.get(f"{frontend.url}/health").json()["instances"]
                serving = sum(item["endpoint"] == "generate" for item in instances)
                _least(seen.frontends, cluster.region, serving)

    threads = [threading.Thread(target=look, args=(one,)) for one in clusters(told)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _least(found: dict[str, int], region: str, count: int) -> None:
    found[region] = min(count, found.get(region, count))


def warm(load: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the load has enough answers."""
    deadline = time.monotonic() + PATIENCE_S
    file = load / "requests.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < WARM_REQUESTS:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the load does not run: see loadtest-run.err")
        time.sleep(1)


def assumed(strategy: Strategy, found: Measured, replicas: int) -> Strategy:
    """Give a strategy that assumes what was measured."""
    gates = strategy.waves[0].gates
    window_s = max(found.window_s, 0.1)
    rate = gates.min_requests / (window_s * (replicas - 1))
    share = min(1.0, gates.min_replica_requests / (window_s * rate))
    known = {
        "load_bytes_per_s": NO_LOAD, "warm_up_s": found.start_s, "update_s": found.update_s,
        "drain_share": found.drain_s / DRAIN_S, "register_s": max(found.register_s, 0.01),
        "questions_s": max(found.questions_s, 0.01), "requests_per_s": rate,
        "returning_share": share,
    }  # fmt: skip
    return strategy.model_copy(update={"assumed": strategy.assumed.model_copy(update=known)})


def planned(folder: Path, strategy: Strategy) -> RolloutPlan:
    """Plan the same rollout by the pure model."""
    path = folder / "fleet.yaml"
    return plan_rollout(load_fleet(path), load_release("./b.yaml", beside=path), strategy)


def told_eta(folder: Path, record: Path, replicas: int) -> bool:
    """Compare the model, given the canary's step and given all steps, with the clock."""
    entries = Journal(record).read()
    assert isinstance(entries[0], Started)
    actual_s = entries[-1].at_s - entries[0].at_s
    steps = story(entries).steps
    strategy = load_strategy(folder / "strategy.yaml")
    good = True
    for what, some in (("the canary's step", steps[:1]), ("all steps", steps)):
        found = measured(some)
        assert found is not None
        plan = planned(folder, assumed(strategy, found, replicas))
        off = plan.total_s / actual_s - 1
        print(
            f"ETA given {what}: {plan.total_s:.0f} s, real {actual_s:.0f} s, {off:+.1%}; "
            f"one by one {plan.one_by_one_s:.0f} s; {found}"
        )
        good = abs(off) <= OFF_LIMIT
    for step in steps:
        phases = ", ".join(f"{s.phase} {(s.to_s or s.from_s) - s.from_s:.1f}" for s in step.spans)
        print(f"step {step.step}: {', '.join(step.replicas)}: {step.seconds:.1f} s: {phases}")
    return good


def told_users(report: dict[str, Any], seen: Seen, replicas: int) -> bool:
    """Say what users saw; the floor is one replica less than all."""
    clients = report["clients"]
    late = [
        span["why"]
        for step in report["steps"]
        for span in step["spans"]
        if span["phase"] == "drain"
    ]
    outlived = [why for why in late if "drain budget is over" in why]
    print(
        f"failed {clients['failed_meanwhile']} of {clients['requests']} requests "
        f"({clients['by_class']}), {clients['cut']} of them cut; drains over budget: {outlived}"
    )
    print(f"served at least: API servers {seen.api}, frontends {seen.frontends}")
    for region, slices in clients["regions"].items():
        before = [s["hit"] for s in slices if s["to_s"] <= 0 and s["hit"] is not None]
        meanwhile = [s["hit"] for s in slices if s["from_s"] > 0 and s["hit"] is not None]
        print(
            f"{region}: hit before {_mean(before)}, lowest 5 s {min(meanwhile, default=None)}, "
            f"at the end {_mean(meanwhile[-6:])}"
        )
    least = min([*seen.api.values(), *seen.frontends.values()])
    return least >= replicas - 1 and clients["failed_meanwhile"] == clients["cut"]


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def rolled_out(place: Place, replicas: int, users: int) -> int:
    """Bring the lab up, send the load, roll out, and judge; 1 when something did not hold."""
    code, out = place.run("lab", "up", "fleet.yaml", "-o", "json")
    if code:
        raise SystemExit(f"lab up ended with {code}")
    told, load = json.loads(out), place.folder / "load"
    try:
        sent = place.start(
            *("loadtest", "run", "fleet.yaml", "--users", str(users), "--out", str(load)),
            *("--duration", f"{LOAD_S}s", "--seed", "7", "-o", "json"),
        )
        warm(load, sent)
        words = ("rollout", "start", "fleet.yaml", "./b.yaml", "--yes")
        with watched(told) as seen:
            code, _ = place.run(*words, "--strategy", "strategy.yaml")
            if code == EXIT_CONFIG:
                raise SystemExit("the rollout was refused: see rollout-start.err")
            time.sleep(CALM_S)
        sent.send_signal(signal.SIGINT)
        sent.communicate()
        shown = ("rollout", "report", "fleet.yaml", "--load", str(load), "-o", "json")
        report = json.loads(place.run(*shown)[1])
        print(f"rollout ended with {code}: {report['status']}; load average {os.getloadavg()}")
        kept = told_users(report, seen, replicas)
        on_time = told_eta(place.folder, Path(report["page"]).with_suffix(".jsonl"), replicas)
        return int(not (code == 0 and kept and on_time))
    finally:
        place.run("lab", "down", "fleet.yaml")


def main() -> int:
    """Read the size, and run in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=9, help="of each of the two regions")
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--min-requests", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="a new folder that stays")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = asked.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        write_files(folder, asked.replicas, min_requests=asked.min_requests)
        return rolled_out(Place(folder), asked.replicas, asked.users)


if __name__ == "__main__":
    sys.exit(main())
