"""Load the lab of one region, change its router between loads, and read what was measured."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from cli_runs import K3FLEET, Ended, Here
from lab_region import Region, address
from patience import wait_until

from infra.rollout.cluster import Cluster
from lab.network import loopback_address
from loadtest.judge.comparison import Step, step_of
from loadtest.results.records import Record
from loadtest.results.saved_run import read_saved
from verify.smoke import chat_answers, worker_answers

ROOT = Path(__file__).parents[2]
POLL_S = 0.2


@dataclass(frozen=True)
class Loaded:
    """A load that was sent and judged."""

    folder: Path
    code: int
    report: dict[str, Any]

    @property
    def load(self) -> dict[str, Any]:
        """Give the figures."""
        found: dict[str, Any] = self.report["load"]
        return found

    @cached_property
    def records(self) -> dict[Step, Record]:
        """Give the requests, each by the name that it has in every run with this seed."""
        return {step_of(record): record for record in read_saved(self.folder).records}


@dataclass(frozen=True)
class LoadLab:
    """The lab of a fleet file with one region."""

    here: Here
    fleet: Path
    region: Region

    @cached_property
    def cluster(self) -> Cluster:
        """Give the region as a rollout sees it."""
        return Cluster(
            region=self.region.name,
            kubeconfig=Path(self.region.told["regions"][self.region.name]["kubeconfig"]),
            namespace=self.region.told["namespace"],
            reach=loopback_address,
        )

    @property
    def model(self) -> str:
        """Give the name under which the model is served."""
        return self.region.fleet.model.repo

    def words(self, name: str, *more: str, gates: str = "gates") -> list[str]:
        """Give the words of a load whose files go to a folder of that name."""
        out = self.here.folder / name
        return [
            *("loadtest", "run", str(self.fleet), "--out", str(out), "-o", "json"),
            *("--gates", str(self.here.folder / f"{gates}.yaml"), *more),
        ]

    def load(self, name: str, *more: str) -> Loaded:
        """Send a load to its end."""
        return self.ended(name, self.here.run(*self.words(name, *more)))

    def ended(self, name: str, ended: Ended) -> Loaded:
        """Read what a load left that has ended."""
        assert "Traceback" not in ended.err
        assert ended.out, ended.err
        return Loaded(self.here.folder / name, ended.code, json.loads(ended.out))

    def sent(self, name: str) -> int:
        """Count the requests that a load has had answers to."""
        path = self.here.folder / name / "requests.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def route_by(self, router: Mapping[str, Any]) -> None:
        """Give the frontends another router, as a user does: fleet file, then `pulumi up`."""
        spec = yaml.safe_load(self.fleet.read_text())
        self.fleet.write_text(yaml.safe_dump({**spec, "router": dict(router)}))
        region = self.region.told["regions"][self.region.name]
        stack = f"--stack {region['serving_stack']} --config-file {region['stack_config']}"
        script = (
            f". {shlex.quote(self.region.told['env_file'])} && "
            f"pulumi -C infra/serving up {stack} --yes --non-interactive"
        )
        done = subprocess.run(
            ["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(
            lambda: self._routes_by(router["mode"]),
            f"no frontend routes by {router}",
            pause_s=POLL_S,
        )

    def _routes_by(self, mode: str) -> bool:
        """Say whether one frontend is left, of that mode, knows all replicas, and is reached."""
        pods = self.region.pods("frontend")
        if len(pods) != 1 or "podIP" not in pods[0]["status"]:
            return False
        args = pods[0]["spec"]["containers"][0]["args"]
        url = f"http://{address(pods[0])}:8000"
        return (
            args[args.index("--router-mode") + 1] == mode
            and all(
                worker_answers(url, self.model, worker)
                for worker in self.cluster.workers().values()
            )
            and chat_answers(self.region.gateway_url, self.model)
        )


def lab_up(here: Here, fleet_text: str) -> LoadLab:
    """Bring a fleet's lab up."""
    fleet = here.folder / "fleet.yaml"
    fleet.write_text(fleet_text)
    ended = here.run("lab", "up", str(fleet), "-o", "json")
    assert ended.code == 0, ended.err
    return LoadLab(here, fleet, Region(here, json.loads(ended.out)))


def compared(a: Loaded, b: Loaded) -> dict[str, str]:
    """Ask the command line how B differs from A: better, worse or noise, by figure."""
    words = [K3FLEET, "loadtest", "compare", str(a.folder), str(b.folder), "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    told = json.loads(done.stdout)
    assert told["paired"]
    return {found["metric"]: found["word"] for found in told["differences"]}
