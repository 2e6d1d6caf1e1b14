"""Claims about the child that makes the load."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from run_folders import GENERATOR, RECORD, make_settings, write_part

from cli.progress import TerminalProgress
from fleet.errors import LoadError
from lab.load_process import LoadProcess
from lab.steps import Step
from loadtest.results.records import Generator

KILLED = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]


@pytest.mark.parametrize(("left", "proposes"), [(GENERATOR, True), (None, False)])
def test_what_workers_of_a_killed_master_left_can_be_judged(
    tmp_path: Path, left: Generator | None, proposes: bool
) -> None:
    """Nobody knows the command at that moment; without generator.json it would refuse."""
    write_part(tmp_path / "worker-0", [RECORD], left)
    process = LoadProcess(settings=make_settings(tmp_path), environ=dict(os.environ), watched=False)
    with pytest.raises(LoadError, match="ended with code -9") as caught:
        process.run(KILLED, Step(TerminalProgress(io.StringIO())))
    assert (f"k3fleet loadtest report {tmp_path}" in str(caught.value)) is proposes
