"""A lab is found again by another command, and a broken state file is no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.errors import ConfigError, LabError
from lab.leftovers import end_lab, end_old_lab
from lab.processes import MARK, lab_mark
from lab.state import STATE_FILE, LabState, read_state, write_state


def state(tmp_path: Path, *, kept: bool) -> LabState:
    return LabState(
        lab_id="nobody-has-this-mark",
        fleet_file=tmp_path / "fleet.yaml",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        kept=kept,
        regions={},
        namespace="k3",
        log_dir=tmp_path,
        env_file=tmp_path / "env.sh",
        load_settings=tmp_path / "settings.json",
    )


def test_a_written_state_is_read_back(tmp_path: Path):
    """`lab down` runs in another process than `lab up`."""
    write_state(tmp_path, state(tmp_path, kept=True))
    assert read_state(tmp_path) == state(tmp_path, kept=True)


def test_a_state_whose_processes_are_gone_does_not_block(tmp_path: Path):
    """After a reboot or a kill -9 the next run has to work."""
    write_state(tmp_path, state(tmp_path, kept=True))
    assert end_old_lab(tmp_path) is None
    assert read_state(tmp_path) is None


def test_a_running_kept_lab_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Somebody may be working in it."""
    write_state(tmp_path, state(tmp_path, kept=True))
    monkeypatch.setattr(LabState, "alive", True)
    with pytest.raises(ConfigError, match="lab down"):
        end_old_lab(tmp_path)


def test_a_broken_state_file_says_what_to_do(tmp_path: Path):
    """A half-written or foreign file must not end in a traceback."""
    (tmp_path / STATE_FILE).write_text("{")
    with pytest.raises(LabError, match="Remove the file"):
        read_state(tmp_path)


def test_a_lab_is_ended_although_its_state_is_damaged(tmp_path: Path):
    """The mark in its processes' environment is enough, also when the folder was deleted."""
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    (work_dir / STATE_FILE).write_text("{")
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, MARK: lab_mark("any", work_dir)},
    )
    assert end_lab(work_dir) == 1
    sleeper.wait(timeout=20)
    assert end_lab(work_dir) is None
