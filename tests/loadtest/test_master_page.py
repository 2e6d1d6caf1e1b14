"""Claims about starting and stopping a load by the page of a real Locust master."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from patience import wait_until

from fleet.errors import ConfigError, LoadError
from loadtest.play.master_page import UrlPage, in_pod_command, load_state, start_load, stop_load
from loadtest.run import LOCUSTFILE
from loadtest.settings import LoadSettings, write_settings


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def page(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Iterator[UrlPage]:
    """Run a master with its page and one worker, as the charts do; nothing is started in it."""
    fields: dict[str, Any] = {
        "targets": {"ok": f"{gateway}/ok"}, "tokenizer_dir": tokenizer_dir, "users": 2,
        "token_scale": 200.0, "block_size": 16, "out_dir": tmp_path / "results",
    }  # fmt: skip
    settings = write_settings(LoadSettings.model_validate(fields))
    locust = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--settings", str(settings)]
    bind, web = str(free_port()), free_port()
    at_master = ("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", bind)
    log = (tmp_path / "locust.log").open("w")
    started = [
        subprocess.Popen([*locust, *words], stdout=log, stderr=log, cwd=tmp_path)
        for words in (
            (*at_master, "--web-port", str(web), "--stop-timeout", "8"),
            ("--worker", "--master-port", bind),
        )
    ]
    try:
        yield UrlPage(url=f"http://127.0.0.1:{web}")
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log.close()


def has_worker(page: UrlPage) -> bool:
    try:
        return load_state(page).workers == 1
    except ConfigError:
        return False


def test_a_load_is_started_and_stopped_from_afar(page: UrlPage, tmp_path: Path) -> None:
    """Nobody has to open the page to measure a region."""
    wait_until(lambda: has_worker(page), "no worker has come")
    start_load(page, users=3, spawn_per_s=10.0, duration_s=600)
    wait_until(lambda: load_state(page).requests > 0, "no request was sent")
    assert load_state(page).users == 3
    stop_load(page)
    wait_until(lambda: load_state(page).state == "stopped", "it has not stopped")
    worker = tmp_path / "results" / "worker-0"
    wait_until((worker / "generator.json").exists, "there are no results")
    assert (worker / "requests.jsonl").stat().st_size > 0


def test_the_command_for_a_pod_asks_the_same_page(page: UrlPage) -> None:
    """In the cluster it runs inside of the master's pod, where the page listens."""
    wait_until(lambda: has_worker(page), "no worker has come")
    port = int(page.url.rpartition(":")[2])

    class ByCommand:
        def ask(self, method: str, path: str, form: Mapping[str, str]) -> bytes:
            _, *rest = in_pod_command(port, method, path, form)
            return subprocess.run([sys.executable, *rest], capture_output=True, check=True).stdout

    start_load(ByCommand(), users=1, spawn_per_s=1.0, duration_s=600)
    wait_until(lambda: load_state(ByCommand()).users == 1, "no user has come")
    stop_load(ByCommand())


def test_a_url_without_a_page_is_named() -> None:
    """The port may not be forwarded yet."""
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match="no page of a Locust master answers"):
        stop_load(UrlPage(url=url))


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"3"])
def test_another_server_is_not_taken_for_a_master(body: bytes) -> None:
    """A login page answers 200 too."""

    class Other:
        def ask(self, *_: Any) -> bytes:
            return body

    with pytest.raises((ConfigError, LoadError)):
        start_load(Other(), users=1, spawn_per_s=1.0, duration_s=1)
