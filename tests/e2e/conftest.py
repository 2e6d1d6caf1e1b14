"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_runs import Here


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    """Give a folder, and fail when a process is left that was started in it."""
    found = Here(tmp_path)
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
