"""Claims about the load generator as a process: Locust, started as the rehearsal starts it."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from fleet.errors import LoadError
from loadtest.results.records import read_generator, read_records
from loadtest.run import generator_command
from loadtest.settings import LoadSettings

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a generator against some behaviours of the gateway double; none outlives its test."""
    started: list[subprocess.Popen[str]] = []

    def run(*paths: str, **changes: Any) -> subprocess.Popen[str]:
        fields = {
            "targets": {path: f"{gateway}/{path}" for path in paths},
            "tokenizer_dir": tokenizer_dir,
            "users": 4,
            "duration_s": 2,
            "token_scale": 200.0,
            "time_scale": 60.0,
            "out_dir": tmp_path,
        }
        web_port = changes.pop("web_port", None)
        settings = LoadSettings.model_validate({**fields, **changes})
        command = generator_command(settings, python=Path(sys.executable), web_port=web_port)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_a_run_makes_its_files_and_ends_well(start: Start, tmp_path: Path) -> None:
    """Failed calls are a result, not a failure of the generator."""
    process = start("ok", "500")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    outcome = {
        (record.region, record.error) for record in read_records(tmp_path / "requests.jsonl")
    }
    assert outcome == {("ok", None), ("500", "server_5xx")}
    generator = read_generator(tmp_path / "generator.json")
    assert generator.users == 4
    assert generator.duration_s >= 2  # all of the asked time is traffic
    assert generator.calls_unfinished == 0


def test_an_open_loop_tells_when_calls_were_due(start: Start, tmp_path: Path) -> None:
    """Without it nobody can see a load that was sent late."""
    process = start("ok", users=None, sessions_per_minute=600)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    records = list(read_records(tmp_path / "requests.jsonl"))
    assert records
    assert all(record.due_s is not None and record.sent_s >= record.due_s for record in records)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_still_says_what_it_did(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C after an hour must not lose the hour."""
    process = start("ok", duration_s=600)
    requests, pause = tmp_path / "requests.jsonl", Event()
    while process.poll() is None and not (requests.exists() and requests.stat().st_size):
        pause.wait(0.05)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert read_generator(tmp_path / "generator.json").sessions_started >= 1


def test_a_full_disk_ends_the_run_with_its_own_code(start: Start, tmp_path: Path) -> None:
    """A file that may not grow stands for the disk: it is said, and what was written is whole."""
    process = start("ok", duration_s=600)
    requests, pause = tmp_path / "requests.jsonl", Event()
    while process.poll() is None and not (requests.exists() and requests.stat().st_size):
        pause.wait(0.05)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))
    output, _ = process.communicate(timeout=120)
    assert process.returncode == LoadError.exit_code, output
    assert output.count("Free some space") == 1
    assert read_generator(tmp_path / "generator.json").unwritten >= 1
    assert requests.read_bytes().endswith(b"\n")
    assert len(list(read_records(requests))) == len(requests.read_bytes().splitlines())


def test_the_web_page_shows_the_cache_live(start: Start) -> None:
    """Achieved against attainable, per region, while the test runs."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process, pause, rows = start("ok", web_port=port, duration_s=600), Event(), []
    while process.poll() is None and not rows:
        pause.wait(0.1)
        with contextlib.suppress(OSError), closing(HTTPConnection("127.0.0.1", port)) as page:
            page.request("GET", "/stats/requests")
            rows = json.load(page.getresponse())["extended_stats"][0]["data"]
    process.terminate()
    process.communicate(timeout=60)
    assert [row["region"] for row in rows if row["turns"] == "all"] == ["ok"]


def test_a_stop_on_the_page_ends_the_process(start: Start, tmp_path: Path) -> None:
    """Whoever waits for the verdict pressed stop because it was enough."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process, pause = start("ok", web_port=port, duration_s=600), Event()
    requests = tmp_path / "requests.jsonl"
    while process.poll() is None and not (requests.exists() and requests.stat().st_size):
        pause.wait(0.05)
    with closing(HTTPConnection("127.0.0.1", port)) as page:
        page.request("POST", "/stop")
        assert page.getresponse().status == 200
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert read_generator(tmp_path / "generator.json").duration_s < 600


def test_a_context_that_holds_no_session_is_said(start: Start) -> None:
    """Users that find no session must not look for one for ever."""
    process = start("ok", max_context=1024, token_scale=1.0)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Raise max_context or token_scale, or take another profile." in output
    assert "Traceback" not in output


def test_no_fleet_at_all_is_an_error_of_its_own(start: Start, tmp_path: Path) -> None:
    """Exit code 8, no traceback, and what to do."""
    process = start(targets={"us": "http://127.0.0.1:1"})
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 8
    assert "targets.us: http://127.0.0.1:1: connect" in output
    assert "Traceback" not in output


def test_a_wrong_tokenizer_directory_is_a_configuration_error(start: Start) -> None:
    """Exit code 3, no traceback."""
    process = start("ok", tokenizer_dir="/none")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "/none/tokenizer.json: No such file or directory" in output
    assert "Traceback" not in output


def test_an_error_that_nobody_foresaw_ends_the_run_too(start: Start) -> None:
    """Locust only logs it, and users would wait for ever. No path has a NUL, and nobody checks."""
    process = start("ok", tokenizer_dir="/no\0thing")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == LoadError.exit_code, output
    assert "error: preparation: ValueError" in output
    assert "Traceback" in output
