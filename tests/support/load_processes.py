"""Run Locust processes of a load test against the gateway double, and wait on what they show."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from string import ascii_lowercase
from threading import Event
from typing import Any
from urllib.parse import urlencode

from loadtest.run import LOCUSTFILE
from loadtest.settings import LoadSettings, write_settings

MOST_S = 90.0
"""How long to wait for a condition: far above what it takes on a busy machine."""

QUIET = ("--stop-timeout", "8", "--exit-code-on-error", "0", "--only-summary")
GATEWAY = Path(__file__).parents[1] / "loadtest" / "fake_gateway.py"


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer.json that has 676 one-token words and some others."""
    words = [f"Ġ{a}{b}x" for a in ascii_lowercase for b in ascii_lowercase]
    others = ["Ġa", "Ġan", "word", "ĠUpper", "Ġx1", "{", "Ġ"]
    entries = {token: index for index, token in enumerate([*others, *words])}
    tokenizer = {"model": {"type": "BPE", "vocab": entries, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class LoadProcesses:
    """Start processes on one settings file; `end` kills all of them, each by its id."""

    def __init__(self, folder: Path, url: str, tokenizer_dir: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.fields: dict[str, Any] = {
            "targets": {"ok": f"{url}/ok"},
            "tokenizer_dir": tokenizer_dir,
            "users": 4,
            "duration_s": 2,
            "token_scale": 200.0,
            "block_size": 16,  # of the gateway double's cache
            "out_dir": self.results,
        }
        self.port = free_port()
        self.page = free_port()
        self.settings = folder / "settings.json"
        self.environment = dict(os.environ)
        """Of the processes that are started from now on."""
        self._started: list[subprocess.Popen[str]] = []

    def let_jump(self, jump_s: float) -> None:
        """Let the time of day of processes started from now on jump, once `jump` is called."""
        folder = Path(__file__).with_name("jumping_clock")
        jump = f"{jump_s} {self.folder / 'jump'}"
        self.environment |= {"PYTHONPATH": str(folder), "CLOCK_JUMP": jump}

    def jump(self) -> None:
        """Set the clocks."""
        (self.folder / "jump").touch()

    def write(self, **changes: Any) -> LoadSettings:
        """Write the settings that all processes read."""
        settings = LoadSettings.model_validate({**self.fields, **changes})
        self.settings = write_settings(settings.model_copy(update={"out_dir": self.folder}))
        self.settings.write_text(settings.model_dump_json(), encoding="utf-8")
        return settings

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start one process; what it says is in `said`."""
        log = (self.folder / f"log-{len(self._started)}").open("w", encoding="utf-8")
        command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE)]
        process = subprocess.Popen(
            [*command, "--settings", str(self.settings), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )
        log.close()
        self._started.append(process)
        return process

    def master(self, *words: str) -> subprocess.Popen[str]:
        """Start a master; without words of its own it has a page."""
        bind = ("--master-bind-host", "127.0.0.1", "--master-bind-port", str(self.port))
        page = ("--web-port", str(self.page)) if "--headless" not in words else ()
        return self.start("--master", *bind, *page, *QUIET, *words)

    def headless(self, workers: int, *words: str) -> subprocess.Popen[str]:
        """Start a master that begins when its workers are there."""
        expected = ("--expect-workers", str(workers), "--spawn-rate", "8")
        return self.master("--headless", *expected, *words)

    def workers(self, count: int) -> list[subprocess.Popen[str]]:
        """Start workers."""
        return [self.worker() for _ in range(count)]

    def worker(self) -> subprocess.Popen[str]:
        """Start one worker."""
        return self.start("--worker", "--master-port", str(self.port))

    def said(self) -> str:
        """Give the output of all processes, for the message of a failed test."""
        logs = sorted(self.folder.glob("log-*"))
        return "\n".join(f"== {log.name}\n{log.read_text(encoding='utf-8')}" for log in logs)

    def wait(self, process: subprocess.Popen[str]) -> int:
        """Wait for the end of a process and give its exit code."""
        try:
            return process.wait(timeout=MOST_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running\n{self.said()}") from None

    def end(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            process.kill()
            process.wait()

    def until(self, is_right: Callable[[], Any], what: str) -> Any:
        """Wait until something is true, and give it."""
        deadline, pause = time.monotonic() + MOST_S, Event()
        while time.monotonic() < deadline:
            with suppress(OSError, ValueError, KeyError, IndexError):
                if found := is_right():
                    return found
            pause.wait(0.1)
        raise AssertionError(f"not within {MOST_S:.0f} s: {what}\n{self.said()}")

    def get(self, path: str = "/stats/requests") -> Any:
        """Read JSON of the page."""
        with closing(HTTPConnection("127.0.0.1", self.page, timeout=10)) as connection:
            connection.request("GET", path)
            return json.load(connection.getresponse())

    def raw(self, path: str) -> bytes:
        """Read a page as it is."""
        with closing(HTTPConnection("127.0.0.1", self.page, timeout=10)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read()

    def post(self, path: str, **form: str) -> Any:
        """Send a form to the page."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        with closing(HTTPConnection("127.0.0.1", self.page, timeout=30)) as connection:
            connection.request("POST", path, urlencode(form), headers)
            return json.load(connection.getresponse())

    def rows(self, key: str) -> list[dict[str, Any]]:
        """Read the rows of one of our tabs."""
        tables = {table["key"]: table["data"] for table in self.get()["extended_stats"]}
        found: list[dict[str, Any]] = tables[key]
        return found

    def lines(self, part: str) -> int:
        """Count the requests that a worker wrote."""
        path = self.results / part / "requests.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0


@contextmanager
def logging_gateway(tokenizer_dir: Path, log: Path) -> Iterator[str]:
    """Run a gateway double that writes a line per request: session and digest of the body."""
    command = [sys.executable, str(GATEWAY), str(tokenizer_dir / "tokenizer.json"), str(log)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()
