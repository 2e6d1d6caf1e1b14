"""Claims about a disk that is full in the middle of a run."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from load_processes import LoadProcesses

from fleet.errors import LoadError
from loadtest.results.records import (
    GENERATOR_FILE,
    REQUESTS_FILE,
    read_generator,
    read_records,
)
from loadtest.results.workers_file import read_workers
from loadtest.run import generator_command
from loadtest.settings import LoadSettings

ROOM_BYTES = 300_000


def limit_files() -> None:
    """Let no file of this process become larger: writing then fails as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))


def test_a_full_disk_ends_the_run_and_keeps_what_was_written(
    gateway: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    """An hour of load whose results go nowhere is worse than no load."""
    settings = LoadSettings(
        targets={"ok": f"{gateway}/ok"},
        tokenizer_dir=tokenizer_dir,
        users=40,
        duration_s=50,
        spawn_per_s=100.0,
        token_scale=200.0,
        time_scale=6000.0,
        out_dir=tmp_path,
    )
    command = generator_command(settings, python=Path(sys.executable), web_port=None)
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
        preexec_fn=limit_files,
    )
    assert done.returncode == LoadError.exit_code, done.stdout
    assert "requests.jsonl: File too large. Free some space" in done.stdout
    assert "Traceback" not in done.stdout
    records = list(read_records(tmp_path / "requests.jsonl"))
    assert len(records) >= 20


def test_a_worker_whose_disk_is_full_is_written_down_and_the_others_play_on(
    gateway: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    """Its machine has no room any more; those of the others may have."""
    load = LoadProcesses(tmp_path, gateway, tokenizer_dir)
    try:
        load.write(users=8, duration_s=40, time_scale=6000.0)
        master = load.headless(2)
        others = load.workers(2)
        full = others[0]
        resource.prlimit(full.pid, resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))
        assert load.wait(full) == LoadError.exit_code, load.said()
        assert load.wait(master) == 0, load.said()
        assert load.wait(others[1]) == 0, load.said()
    finally:
        load.end()
    assert "requests.jsonl: File too large. Free some space" in load.said()
    assert "Traceback" not in load.said(), load.said()
    workers = read_workers(load.results)
    assert workers is not None
    (fault,) = workers.faults
    lost = load.results / fault.split()[0]
    for folder in (lost, *(part for part in load.results.glob("worker-*") if part != lost)):
        assert len(list(read_records(folder / REQUESTS_FILE))) >= 20
        assert read_generator(folder / GENERATOR_FILE).duration_s > 0
