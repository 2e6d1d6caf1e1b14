"""Bring up a lab for rollouts, and watch them from outside: API servers, record, and clients."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import yaml
from cli_runs import Here
from lightkube.types import PatchType
from patience import wait_until

from fleet.load import load_fleet, load_release
from fleet.release import release_id
from fleet.rollout.record import Began
from infra.rollout.cluster import RELEASE_LABEL, AwayError, Cluster, LeaderWorkerSet
from infra.rollout.journal import Journal
from lab.network import loopback_address

FILE = "fleet.yaml"
BY_STRATEGY = ("--strategy", "strategy.yaml", "--yes")
POLL_S = 0.2
QUICK_S = 0.02  # between looks for what is over soon
PATIENCE_S = 600.0  # only ends what hangs


@dataclass
class Watched:
    """What was seen while it was watched."""

    fewest: dict[str, int] = field(default_factory=dict)  # region -> replicas in routing, at least
    pods: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # leaders' uids
    answers: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Lab:
    """A lab that `lab up -o json` has told about."""

    told: Mapping[str, Any]
    model: str

    @property
    def clusters(self) -> list[Cluster]:
        return [
            Cluster(
                region=name,
                kubeconfig=Path(region["kubeconfig"]),
                namespace=self.told["namespace"],
                reach=loopback_address,
            )
            for name, region in self.told["regions"].items()
        ]

    def releases(self) -> dict[str, str]:
        """Read which release the leader of each replica runs."""
        return {
            pod.replica: pod.release
            for cluster in self.clusters
            for pod in cluster.engines()
            if pod.leader and pod.ready
        }

    def leaders(self) -> dict[str, str]:
        """Read the uid of each replica's leader."""
        return {
            pod.replica: pod.uid
            for cluster in self.clusters
            for pod in cluster.engines()
            if pod.leader and not pod.deleting
        }

    def generations(self) -> dict[str, int]:
        """Read how often the object of each replica was changed."""
        return {
            name: item["metadata"]["generation"]
            for cluster in self.clusters
            for name, item in cluster.workloads().items()
        }

    def label(self, replica: str, release: str) -> None:
        """Change a replica's object as somebody does by hand: which release it says it has."""
        [cluster] = [c for c in self.clusters if replica in c.workloads()]
        patch = {"metadata": {"labels": {RELEASE_LABEL: release}}}
        cluster.client.patch(LeaderWorkerSet, replica, patch, patch_type=PatchType.MERGE)

    def pulumi(self, here: Here, *words: str) -> tuple[int, str]:
        """Run Pulumi by hand on the west's serving stack, as a working copy has it configured."""
        folder = here.work_dir / "lab/pulumi/serving-west"
        config = folder / "Pulumi.serving-west.yaml"
        command = shlex.join(
            [
                *("pulumi", "-C", str(folder), *words, "--stack", "serving-west"),
                *("--config-file", str(config), "--non-interactive", "--color", "never"),
            ]
        )
        ended = subprocess.run(
            ["bash", "-c", f". {shlex.quote(self.told['env_file'])} && {command}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return ended.returncode, ended.stdout + ended.stderr

    def stream(self, replica: str, tokens: int, heard: list[str]) -> None:
        """Have a replica write a long answer, and keep how it ended."""
        [cluster] = [c for c in self.clusters if f"{replica}-0" in c.workers()]
        [frontend] = cluster.frontends()
        asked = {
            "model": self.model,
            "messages": [{"role": "user", "content": "a long story"}],
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "nvext": {"backend_instance_id": int(cluster.workers()[f"{replica}-0"])},
        }
        url = f"{frontend.url}/v1/chat/completions"
        with httpx2.stream("POST", url, json=asked, timeout=60, trust_env=False) as reply:
            heard += [line for line in reply.iter_lines() if line.startswith("data:")]

    @contextmanager
    def watched(self) -> Iterator[Watched]:
        """Look at the API servers and be a client of every region while the block runs."""
        seen, stop = Watched(), threading.Event()
        urls = [region["gateway_url"] for region in self.told["regions"].values()]
        threads = [
            *(threading.Thread(target=self._look, args=(c, seen, stop)) for c in self.clusters),
            *(threading.Thread(target=self._chat, args=(u, seen, stop)) for u in urls),
        ]
        for thread in threads:
            thread.start()
        try:
            yield seen
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=PATIENCE_S)

    def _look(self, cluster: Cluster, seen: Watched, stop: threading.Event) -> None:
        while not stop.wait(POLL_S):
            try:
                routed, pods = len(cluster.in_routing()), cluster.engines()
            except AwayError:
                continue  # a test may have stopped the API server
            seen.fewest[cluster.region] = min(routed, seen.fewest.get(cluster.region, routed))
            for pod in pods:
                if pod.leader:
                    seen.pods[pod.replica].add(pod.uid)

    def _chat(self, url: str, seen: Watched, stop: threading.Event) -> None:
        while not stop.wait(POLL_S):
            if fault := self.fault(url):
                seen.faults.append(fault)
            else:
                seen.answers += 1

    def fault(self, url: str) -> str:
        """Ask a gateway for a short answer; say what went wrong."""
        asked = {"model": self.model, "messages": [{"role": "user", "content": "hello"}]}
        try:
            reply = httpx2.post(
                f"{url}/v1/chat/completions",
                json={**asked, "max_tokens": 20},
                timeout=60,
                trust_env=False,
            )
            reply.raise_for_status()
            assert reply.json()["usage"]["completion_tokens"] > 0
        except (httpx2.HTTPError, AssertionError) as error:
            return repr(error)
        return ""


@contextmanager
def lab_of(
    here: Here, fleet: str, strategy: str, releases: Mapping[str, Mapping[str, object]], *up: str
) -> Iterator[Lab]:
    """Keep the lab of a fleet file up, with releases and a strategy beside it.

    `up`: more words for `lab up`.
    """
    for name, fields in releases.items():
        text = yaml.safe_dump({"extends": "vllm-tp8-dcp8", "name": name, **fields})
        (here.folder / f"{name}.yaml").write_text(text)
    (here.folder / "strategy.yaml").write_text(strategy)
    (here.folder / FILE).write_text(fleet)
    ended = here.run("lab", "up", FILE, "-o", "json", *up)
    assert ended.code == 0, ended.err
    yield Lab(json.loads(ended.out), load_fleet(here.folder / FILE).model.repo)
    assert here.run("lab", "down", FILE).code == 0


def copied(here: Here, name: str) -> Here:
    """Make another working copy of the same fleet: its files, no record, no stacks."""
    copy = Here(here.folder / name)
    copy.folder.mkdir()
    for file in here.folder.glob("*.yaml"):
        shutil.copy(file, copy.folder)
    return copy


def identity(here: Here, name: str) -> str:
    """Give the id of a release of a lab."""
    return release_id(load_release(f"./{name}.yaml", beside=here.folder / FILE))


def start_words(name: str, *more: str) -> list[str]:
    """Give the command that brings a release out."""
    return ["rollout", "start", FILE, f"./{name}.yaml", *BY_STRATEGY, *more]


def record(here: Here, number: int) -> Path:
    """Give the file of a rollout's record."""
    return here.work_dir / "lab" / "rollouts" / f"{number:04}.jsonl"


def latest(here: Here) -> int:
    """Give the number of the latest rollout."""
    return len(list((here.work_dir / "lab/rollouts").glob("*.jsonl")))


def joined(here: Here, *words: str) -> tuple[str, ...]:
    """Give a command of a working copy that did not start the lab."""
    return (*words, "--lab", str(here.work_dir))


def phase_s(record: Path, phase: str) -> float:
    """Say how long a phase took the first time."""
    entries = Journal(record).read()
    began = next(e for e in entries if isinstance(e, Began) and e.phase == phase)
    return entries[entries.index(began) + 1].at_s - began.at_s


def wait_for_phase(record: Path, phase: str, after: int, patience_s: float = PATIENCE_S) -> int:
    """Wait until a phase has begun behind an entry of a record; give the record's length."""

    def length() -> int:
        entries = Journal(record).read()
        begun = any(isinstance(e, Began) and e.phase == phase for e in entries[after:])
        return len(entries) if begun else 0

    return wait_until(length, f"{phase} has not begun", patience_s, QUICK_S)


def wait_for_event(events: Path, phase: str, replica: str) -> None:
    """Wait until a file of events says that a phase of a replica has begun."""

    def begun() -> bool:
        lines = events.read_text().splitlines() if events.exists() else []
        found = [json.loads(line) for line in lines]
        return any(event["phase"] == phase and replica in event["replicas"] for event in found)

    wait_until(begun, f"{phase} of {replica} has not begun", PATIENCE_S, QUICK_S)
