"""Claims about one test in several Locust processes: a master and workers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from patience import wait_until

from fleet.load import load_fleet
from infra.render import render_region
from loadtest.results.records import read_generator, read_records
from loadtest.run import LOCUSTFILE
from loadtest.settings import LoadSettings, write_settings

Start = Callable[..., subprocess.Popen[str]]
ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def settings_file(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        fields = {
            "targets": {"ok": f"{gateway}/ok"},
            "tokenizer_dir": tokenizer_dir,
            "users": 4,
            "duration_s": 2,
            "token_scale": 200.0,
            "block_size": 16,  # of the gateway double's cache
            "out_dir": tmp_path / "results",
        }
        return write_settings(LoadSettings.model_validate({**fields, **changes}))

    return write


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start Locust processes on one settings file; none outlives its test."""
    started: list[subprocess.Popen[str]] = []

    def run(settings: Path, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE)]
        process = subprocess.Popen(
            [*command, "--settings", str(settings), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_workers_share_the_agents_and_nothing_else(
    start: Start, settings_file: Callable[..., Path], tmp_path: Path
) -> None:
    """Sessions that two workers send would be cache hits that neither oracle knows of."""
    settings, port = settings_file(), str(free_port())
    bind = ("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port)
    alone = ("--headless", "--users", "4", "--spawn-rate", "4", "--expect-workers", "2")
    quiet = ("--stop-timeout", "8", "--exit-code-on-error", "0", "--only-summary")
    master = start(settings, *bind, *alone, *quiet)
    workers = [start(settings, "--worker", "--master-port", port) for _ in range(2)]
    output, _ = master.communicate(timeout=90)
    assert master.returncode == 0, output
    for worker in workers:
        said, _ = worker.communicate(timeout=30)
        assert worker.returncode == 0, said
    folders = [tmp_path / "results" / f"worker-{index}" for index in range(2)]
    generators = [read_generator(folder / "generator.json") for folder in folders]
    assert sum(generator.users for generator in generators) == 4
    assert all(generator.duration_s >= 2 for generator in generators)
    sessions = [
        {record.session for record in read_records(folder / "requests.jsonl")} for folder in folders
    ]
    assert all(sessions)
    assert sessions[0].isdisjoint(sessions[1])
    for folder in folders:
        for record in read_records(folder / "requests.jsonl"):
            # What the other worker sent is never found, so each oracle is exact by itself.
            assert record.cancelled or record.cached_tokens == record.attainable_tokens


def test_the_masters_page_sums_up_its_workers(
    start: Start, settings_file: Callable[..., Path]
) -> None:
    """The page is looked at where no request is sent."""
    settings = settings_file(duration_s=600)
    port, page = str(free_port()), free_port()
    master = start(
        settings,
        *("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port),
        *("--autostart", "--users", "2", "--spawn-rate", "2", "--expect-workers", "1"),
        *("--web-port", str(page), "--stop-timeout", "8"),
    )
    start(settings, "--worker", "--master-port", port)
    rows: list[dict[str, Any]] = []
    pause = Event()
    while master.poll() is None and not rows:
        pause.wait(0.2)
        with suppress(OSError), closing(HTTPConnection("127.0.0.1", page)) as connection:
            connection.request("GET", "/stats/requests")
            rows = json.load(connection.getresponse())["extended_stats"][0]["data"]
    assert [row["region"] for row in rows if row["turns"] == "all"] == ["ok"]


def rendered_args(settings: Path, replaced: dict[str, str], tmp_path: Path) -> list[list[str]]:
    """Give the command lines that a region renders, led to this machine's files and ports."""
    loadtest = {"image": "x@sha256:" + "0" * 64, "tokenizer_dir": "/opt/kimi"}
    racks = [{"id": "use1-r01", "healthy_nodes": 2}]
    data = {
        "apiVersion": "k3fleet/v1",
        "name": "demo",
        "release": "vllm-tp8",
        "loadtest": loadtest,
        "regions": [{"name": "us-east", "racks": racks}],
    }
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(data))
    replaced = {"/etc/k3fleet/loadtest/settings.json": str(settings), **replaced}
    found = {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]["containers"][0]
        for item in render_region(load_fleet(path), "us-east", "serving")
        if item["kind"] == "Deployment" and item["metadata"]["name"].startswith("loadtest")
    }
    assert all(item["command"] == ["python3", "-m", "locust"] for item in found.values())
    return [
        [replaced.get(word, word) for word in found[f"loadtest-{role}"]["args"]]
        for role in ("master", "worker")
    ]


def test_the_rendered_command_lines_start_a_test(
    settings_file: Callable[..., Path], tmp_path: Path
) -> None:
    """From the page of the master, in the project's folder, as in a cluster."""
    settings, page = settings_file(duration_s=600), free_port()
    replaced = {"5557": str(free_port()), "8089": str(page), "loadtest-master": "127.0.0.1"}
    with ExitStack() as processes:
        for args in rendered_args(settings, replaced, tmp_path):
            process = subprocess.Popen([sys.executable, "-m", "locust", *args], cwd=ROOT)
            processes.callback(process.wait, timeout=30)
            processes.callback(process.kill)
        wait_for(page, "GET", "/stats/requests", lambda said: len(said["workers"]) == 1)
        form = "user_count=2&spawn_rate=2"
        wait_for(page, "POST", "/swarm", lambda said: said["success"], form)
        wait_for(
            page, "GET", "/stats/requests", lambda said: bool(said["extended_stats"][0]["data"])
        )


def wait_for(
    port: int, method: str, path: str, is_right: Callable[[Any], bool], form: str = ""
) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}

    def answered() -> bool:
        with suppress(OSError), closing(HTTPConnection("127.0.0.1", port)) as connection:
            connection.request(method, path, form or None, headers)
            return is_right(json.load(connection.getresponse()))
        return False

    wait_until(answered, f"{method} {path}: not what was expected", pause_s=0.2)
