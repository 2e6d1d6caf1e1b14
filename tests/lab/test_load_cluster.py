"""The load generator of a cluster, with pods that are folders and processes of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import yaml
from lightkube import Client
from run_folders import GENERATOR, RECORD, report_of, sessions_of, write_part

from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from fleet.plan import make_plan
from infra.load_apply import generator_objects, region_client
from lab.load_cluster import PodPage, fetch_results, judge_collected, region_settings
from loadtest.judge.gates import NAMED_GATES, load_gate_set
from loadtest.results.saved_run import read_saved
from loadtest.results.server_truth import SERVER_FILE, Page, write_pages
from loadtest.results.workers_file import WorkerEntry, WorkersFile
from loadtest.settings import write_settings

DEMO = Path(__file__).parents[2] / "fleets" / "demo.yaml"
LOADTEST = {"image": "registry.example/k3fleet@sha256:" + "0" * 64, "tokenizer_dir": "/opt/kimi"}


@dataclass
class LocalPods:
    """Runs the commands of pods here; the disk of each is a folder below one."""

    disks: Path
    ran: list[str]

    def pods(self, name: str) -> tuple[str, ...]:
        found = tuple(sorted(path.name for path in self.disks.glob(f"{name}-*")))
        return found or (f"{name}-0",)

    def run(self, pod: str, command: Sequence[str], out: BinaryIO, *, timeout_s: float) -> None:
        self.ran.append(pod)
        python, *rest = command
        assert python == "python3"
        here = [f"{self.disks / pod}{word}" if word.startswith("/") else word for word in rest]
        done = subprocess.run(
            [sys.executable, *here], capture_output=True, check=True, timeout=timeout_s
        )
        out.write(done.stdout)


def make_fleet(folder: Path, **loadtest: Any) -> Fleet:
    document = yaml.safe_load(DEMO.read_text())
    document["loadtest"] = {**LOADTEST, **loadtest}
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_fleet(path)


def worker_disk(disks: Path, index: int, fleet: Fleet) -> None:
    """Write what a worker pod has: its settings, and what it measured."""
    disk = disks / f"loadtest-worker-{index}"
    settings = region_settings(fleet, "us-east")
    mounted = disk / "etc" / "k3fleet" / "loadtest"
    write_settings(settings.model_copy(update={"out_dir": mounted}))
    records = sessions_of(RECORD, 20, region="us-east")
    write_part(disk / "results" / "us-east" / f"worker-{index}", records, GENERATOR)


def master_disk(disks: Path, fleet: Fleet) -> None:
    """Write what the pod of a master has before any test: its settings."""
    mounted = disks / "loadtest-master-0" / "etc" / "k3fleet" / "loadtest"
    write_settings(region_settings(fleet, "us-east").model_copy(update={"out_dir": mounted}))


def counted(folder: Path, requests: int) -> None:
    """Write what the frontends counted of so many requests like ours."""
    hit = {"input_sequence": RECORD.prompt_tokens or 0, "cached": RECORD.cached_tokens or 0}
    page = Page(region="us-east", url="http://10.0.0.1:8000/metrics", scrapes=2)
    for name, tokens in hit.items():
        page.increments[f"dynamo_frontend_{name}_tokens_sum"] = float(tokens * requests)
    folder.mkdir(parents=True, exist_ok=True)
    write_pages(folder / SERVER_FILE, [page])


def unreachable(folder: Path) -> Client:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    path = folder / "kubeconfig"
    named = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "c"}}]
    users = [{"name": "c", "user": {"token": "t"}}]
    config = {"clusters": named, "contexts": contexts, "users": users, "current-context": "c"}
    path.write_text(yaml.safe_dump(config))
    return region_client(path, None, "k3")


def test_the_books_of_the_master_come_along(tmp_path: Path) -> None:
    """Lost workers, what servers counted, and what a search found are known to it alone."""
    fleet = make_fleet(tmp_path)
    pods = LocalPods(tmp_path / "disks", [])
    worker_disk(pods.disks, 0, fleet)
    master = pods.disks / "loadtest-master-0"
    results = master / "results" / "us-east"
    settings = region_settings(fleet, "us-east")
    write_settings(settings.model_copy(update={"out_dir": master / "etc/k3fleet/loadtest"}))
    write_settings(settings.model_copy(update={"out_dir": results, "seed": 7}), "played.json")
    workers = WorkersFile(run_id="r", folder=results)
    workers.join(WorkerEntry(index=0, client_id="c", joined_s=0.0))
    workers.lose("c", 30.0)
    for name in ("server.json", "search.json", "earlier-1"):
        (results / name).write_text("[]")
    home = tmp_path / "home"
    fetch_results(fleet, "us-east", pods, home)
    found = {path.name for path in home.iterdir()}
    assert found == {
        "settings.json", "played.json", "workers.json", "server.json", "search.json", "worker-0",
    }  # fmt: skip
    run = read_saved(home)
    assert run.settings.seed == 7
    assert "worker-0 was lost after 30 s" in run.faults


@pytest.mark.parametrize(("claim", "asked"), [(None, 2), ("results", 1)])
def test_results_of_all_workers_are_judged_together(
    tmp_path: Path, claim: str | None, asked: int
) -> None:
    """With a claim all pods show the same files; without, each has its own."""
    fleet = make_fleet(tmp_path, **({"results_claim": claim} if claim else {}))
    pods = LocalPods(tmp_path / "disks", [])
    for index in range(2):
        worker_disk(pods.disks, index, fleet)
    master_disk(pods.disks, fleet)
    counting = "loadtest-worker-0" if claim else "loadtest-master-0"
    counted(pods.disks / counting / "results" / "us-east", 60 * asked)
    home = tmp_path / "home"
    fetch_results(fleet, "us-east", pods, home)
    assert len([pod for pod in pods.ran if pod.startswith("loadtest-worker")]) == asked
    assert ("loadtest-master-0" in pods.ran) == (claim is None)
    gates = load_gate_set(NAMED_GATES["endpoint"])
    region = make_plan(fleet).regions[0]
    judged = judge_collected(fleet, region, unreachable(tmp_path), home, gates)
    assert judged.judgement.verdict == "go"
    report = report_of(home)
    assert report["load"]["requests"] == 60 * asked
    assert report["load"]["per_gpu"]["gpus"] == 9 * 8
    assert "Which replicas were registered" in report["unknown"][0]


def test_the_page_is_asked_in_the_masters_pod(tmp_path: Path) -> None:
    """Nobody else reaches it; the command is one that Python alone can run."""
    pods = LocalPods(tmp_path, [])
    with pytest.raises(subprocess.CalledProcessError) as caught:  # no page listens here
        PodPage(shell=pods).ask("POST", "/stop", {})
    assert pods.ran == ["loadtest-master-0"]
    assert b"127.0.0.1:8089" in str(caught.value.cmd).encode()


@pytest.mark.parametrize(
    ("region", "loadtest", "said"),
    [("eu-north", LOADTEST, "is no region of"), ("us-east", None, "loadtest: is not set")],
)
def test_what_is_not_in_the_fleet_file_is_named(
    tmp_path: Path, region: str, loadtest: dict[str, Any] | None, said: str
) -> None:
    """Before any cluster is asked."""
    fleet = make_fleet(tmp_path) if loadtest else load_fleet(DEMO)
    with pytest.raises(ConfigError, match=said):
        generator_objects(fleet, region)


@pytest.mark.parametrize(
    ("text", "context"),
    [("not: a kubeconfig", None), ("{", None), ("GOOD", "other"), ("NO_USER", None)],
)
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str, context: str | None) -> None:
    """Of several files the wrong one is quickly given."""
    good = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "current-context": "c",
    }
    no_user = {**good, "contexts": [{"name": "c", "context": {"cluster": "c"}}]}
    texts = {"GOOD": yaml.safe_dump(good), "NO_USER": yaml.safe_dump(no_user)}
    path = tmp_path / "kubeconfig"
    path.write_text(texts.get(text, text))
    with pytest.raises(ConfigError, match="is no usable kubeconfig"):
        region_client(path, context, "k3")
