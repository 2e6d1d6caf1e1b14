"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_runs import Here


def leaving_nothing(folder: Path) -> Iterator[Here]:
    """Give a folder, and fail when a process is left that was started in it."""
    found = Here(folder)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=60)
    left = found.processes()
    for process in left:
        process.kill()
    assert left == []


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    """Give a test a folder of its own."""
    yield from leaving_nothing(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """Give the tests of a file one folder, for a lab that they only look at."""
    yield from leaving_nothing(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def until() -> Callable[[Callable[[], bool], subprocess.Popen[str]], None]:
    """Wait for a condition while a process runs; fail when the process ends before."""

    def wait(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        while not condition():
            try:
                process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            out, err = process.communicate()
            pytest.fail(f"ended with {process.returncode} before the condition held:\n{out}\n{err}")

    return wait
