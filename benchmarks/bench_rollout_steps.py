"""Measure what a step of a rollout costs beside starting pods, against patches by hand.

A lab of one region whose engines load no weights. A release that changes one number goes out
replica by replica, without soak and with gates that one answer of each side satisfies; a client
asks all the time. Then the same replicas are made anew as one does it by hand: `kubectl patch` of
each LeaderWorkerSet, and `kubectl wait` until it is Available, one after the other. That neither
drains nor asks the new replica anything, nor does it remember.

Pod start is from the first moment at which a watch of the API server shows that an old pod of the
replica has to go, until it shows that all new ones run and the leader is Ready. All the rest of a
step is the tool's own and is held to the limit: preparation, what controllers need to take the
old pod away, waits, our questions, and the time that the engine takes for its answers.

Run it in a network namespace of its own:
`python tests/support/namespace.py python benchmarks/bench_rollout_steps.py`.
Ratios are comparable between machines, seconds are not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from statistics import median

import httpx2
import yaml
from bench_up import Quiet, processor_s

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from cli_runs import Here
from pod_lives import Lives, Step
from rollout_lab import FILE, Lab, lab_of, record, start_words

from cli.wiring import tool_surroundings
from fleet.rollout.measured import measured, phase_seconds
from fleet.rollout.record import PHASES
from fleet.rollout.story import StepStory, story
from infra.rollout.journal import Journal
from lab.toolchain import ensure_tools

LIMIT_S = 6.0
ASK_EVERY_S = 0.03  # so that each replica is asked while the gates watch
RELEASES = {
    "old": {"drain_s": "30s"},
    "new": {"drain_s": "30s", "max_num_seqs": 48},
}
STRATEGY = {
    "apiVersion": "k3fleet/v1",
    "waves": [
        # The schema wants more than nothing of each; the times of so few answers say nothing.
        {
            "scope": "rest",
            "soak": "1ms",
            "gates": {"min_requests": 1, "min_replica_requests": 1, "max_ttft_ratio": 1000.0},
        }
    ],
    "at_once": {"per_rack": 1, "per_region": 1, "regions": 1},
    "floor": {"rack": 0.5, "region": 0.5},
    "deadlines": {"ready": "5m", "registered": "1m", "gates": "5m"},
    "reruns": 0,
}
# Our questions have their real lengths, so the engines must have their real speed: at the lab's
# usual scale of 16 the long one takes 3.8 s, each of the two times.
UNSCALED = ("--token-scale", "1")
# What `kubectl rollout restart` writes, where it knows the kind.
ANEW = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
PATCH = {"spec": {"leaderWorkerTemplate": {"leaderTemplate": ANEW, "workerTemplate": ANEW}}}

# Of a step.
WHOLE, START, BEYOND = (attrgetter(f"{name}_s") for name in ("whole", "start", "beyond"))


@dataclass
class Client:
    """Somebody who asks all the time, one question after the other."""

    lab: Lab
    answers: int = 0
    faults: int = 0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask while the block runs."""
        stop = threading.Event()
        [region] = self.lab.told["regions"].values()
        url = f"{region['gateway_url']}/v1/chat/completions"
        text = {"role": "user", "content": "hello"}
        body = {"model": self.lab.model, "messages": [text], "max_tokens": 2}

        def ask() -> None:
            with httpx2.Client(trust_env=False, timeout=60) as http:
                while not stop.wait(ASK_EVERY_S):
                    try:
                        http.post(url, json=body).raise_for_status()
                        self.answers += 1
                    except httpx2.HTTPError:
                        self.faults += 1

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@dataclass(frozen=True)
class Way:
    """What one way to change all replicas took."""

    name: str
    steps: list[Step]
    client: Client
    processor_s: float

    def of(self, what: Callable[[Step], float]) -> float:
        """Give the median of the steps."""
        return median(map(what, self.steps))

    @property
    def per_minute(self) -> float:
        """Steps in a minute, from the begin of the first to the end of the last."""
        return 60 * len(self.steps) / (self.steps[-1].to_s - self.steps[0].from_s)

    def told(self) -> str:
        """Give a row."""
        asked = self.client.answers + self.client.faults
        return (
            f"{self.name:<28} {self.of(WHOLE):6.1f} s {self.per_minute:8.1f} "
            f"{self.of(START):9.1f} s {self.of(BEYOND):8.1f} s "
            f"{self.processor_s / len(self.steps):8.1f} s {self.client.faults:6} of {asked}"
        )


def rolled_out(here: Here, lab: Lab, lives: Lives) -> tuple[Way, tuple[StepStory, ...]]:
    """Bring the new release out, and read the record."""
    client, used_s = Client(lab), processor_s()
    with client.asking():
        ended = here.run(*start_words("new"))
    if ended.code:
        raise SystemExit(f"the rollout ended with {ended.code}:\n{ended.out}\n{ended.err}")
    steps = story(Journal(record(here, 1)).read()).steps
    begins = [step.from_s for step in steps]
    last_s = steps[-1].to_s
    assert last_s is not None
    found = [
        lives.step(step.replicas[0], *moments)
        for step, moments in zip(steps, pairwise([*begins, last_s]), strict=True)
    ]
    return Way("k3fleet rollout start", found, client, processor_s() - used_s), steps


def by_hand(here: Here, lab: Lab, lives: Lives) -> Way:
    """Patch one replica after the other with kubectl, and wait for it."""
    cache_dir, environ = tool_surroundings()
    tools = ensure_tools(cache_dir=cache_dir, environ=environ, progress=Quiet())
    client, used_s, found = Client(lab), processor_s(), []
    [cluster] = lab.clusters
    flags = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.namespace)

    def kubectl(*words: str) -> None:
        command = [str(tools.bin_dir / "kubectl"), *words, *flags]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=here.folder)

    with client.asking():
        for replica in sorted(lab.releases()):
            from_s, name = time.time(), f"leaderworkerset/{replica}"
            kubectl("patch", name, "--type", "merge", "--patch", json.dumps(PATCH))
            kubectl("wait", name, "--for=condition=Available", "--timeout=10m")
            found.append(lives.step(replica, from_s, time.time()))
    return Way("kubectl patch, kubectl wait", found, client, processor_s() - used_s)


def told_phases(steps: Sequence[StepStory], ours: Way) -> None:
    """Say where the time goes."""
    found = [phase_seconds(step) for step in steps]
    phases = {phase: median(seconds[phase] for seconds in found) for phase in PHASES}
    between_s = ours.of(WHOLE) - median(sum(seconds.values()) for seconds in found)
    known = measured(steps)
    assert known is not None
    before_s = ours.of(lambda step: step.gone_s - step.from_s)
    after_s = ours.of(lambda step: step.to_s - step.up_s)
    print(f"\nbeyond pod start: {before_s:.1f} s until the old pod goes, {after_s:.1f} s after it")
    print(
        f"of it, our questions to the new replica {known.questions_s:.1f} s, "
        f"the window of the gates {known.window_s:.1f} s"
    )
    print(
        "phases, median: "
        + ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in phases.items())
        + f"; between them, for the record, {between_s:.2f} s"
    )


def measured_in(folder: Path, replicas: int) -> int:
    """Bring the lab up, do it both ways, and judge; 1 when the limit is passed."""
    rack = {"id": "e01", "healthy_nodes": 2 * replicas}
    fleet = {"apiVersion": "k3fleet/v1", "name": "steps", "release": "./old.yaml"}
    regions = [{"name": "east", "racks": [rack]}]
    text = yaml.safe_dump({**fleet, "frontends": {"replicas": 1}, "regions": regions})
    here = Here(folder)
    try:
        with lab_of(here, text, yaml.safe_dump(STRATEGY), RELEASES, *UNSCALED) as lab:
            lives = Lives(lab.clusters[0])
            threading.Thread(target=lives.follow, daemon=True).start()
            ours, steps = rolled_out(here, lab, lives)
            rival = by_hand(here, lab, lives)
    except BaseException:
        here.run("lab", "down", FILE)
        raise
    print(
        f"{f'{replicas} replicas, one by one':<28}   a step  per min   pod start  beyond it"
        "  processor  requests failed"
    )
    print(f"{ours.told()}\n{rival.told()}")
    ratio, beyond = ours.of(WHOLE) / rival.of(WHOLE), ours.of(BEYOND) / rival.of(BEYOND)
    print(f"to the rival: a step {ratio:.2f} times, beyond pod start {beyond:.2f} times")
    told_phases(steps, ours)
    print(f"load average {os.getloadavg()[0]:.1f}; limit {LIMIT_S:.0f} s beyond pod start")
    return int(ours.of(BEYOND) > LIMIT_S)


def main() -> int:
    """Read the size, and run in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="a new folder that stays")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = asked.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        return measured_in(folder.resolve(), asked.replicas)


if __name__ == "__main__":
    sys.exit(main())
