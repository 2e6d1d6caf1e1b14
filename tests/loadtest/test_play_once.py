"""Claims about a replay that is played once (`replay.loop: false`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_processes import QUIET, LoadProcesses

from loadtest.results.records import GENERATOR_FILE, REQUESTS_FILE, read_generator, read_records

SESSIONS = 7
AT_ONCE = {"users": 3}
AS_RECORDED = {"users": None, "replay": {"arrivals": "recorded"}}


@pytest.fixture
def load(gateway: str, tokenizer_dir: Path, tmp_path: Path) -> Iterator[LoadProcesses]:
    """Start processes on a recording of seven sessions, one call each, half a second apart."""
    processes = LoadProcesses(tmp_path, gateway, tokenizer_dir)
    rows = [
        {
            "timestamp": 500 * number,
            "input_length": 6144,
            "output_length": 800,
            "hash_ids": list(range(12 * number, 12 * number + 12)),
        }
        for number in range(SESSIONS)
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    processes.fields |= {
        "traffic": f"trace:mooncake:{trace}",
        "run_id": "once",
        "time_scale": 1.0,
        "duration_s": 600,  # far beyond what a test waits
    }
    yield processes
    processes.end()


def write(load: LoadProcesses, changes: dict[str, Any]) -> None:
    replay = {"loop": False, "sessions": "requests", **changes.get("replay", {})}
    load.write(**{**changes, "replay": replay})


def require_each_once(load: LoadProcesses) -> None:
    folders = sorted(path.parent for path in load.results.rglob(REQUESTS_FILE))
    records = [record for part in folders for record in read_records(part / REQUESTS_FILE)]
    sessions = [record.session for record in records]
    assert sorted(sessions) == [f"once-{number}" for number in range(SESSIONS)], load.said()
    generators = [read_generator(part / GENERATOR_FILE) for part in folders]
    assert sum(part.sessions_started for part in generators) == SESSIONS
    assert sum(part.sessions_finished for part in generators) == SESSIONS
    assert not any(word in load.said() for word in ("Traceback", "StopUser", "max_context"))


@pytest.mark.parametrize("changes", [AT_ONCE, AS_RECORDED], ids=["closed", "open"])
def test_the_run_ends_when_every_session_was_played_once(
    load: LoadProcesses, changes: dict[str, Any]
) -> None:
    """Nobody should wait ten minutes for nothing."""
    write(load, changes)
    process = load.start("--headless", "--users", "3", "--spawn-rate", "8", *QUIET)
    assert load.wait(process) == 0, load.said()
    require_each_once(load)


@pytest.mark.parametrize("changes", [AT_ONCE, AS_RECORDED], ids=["closed", "open"])
def test_workers_share_the_sessions_and_the_run_ends_when_all_are_through(
    load: LoadProcesses, changes: dict[str, Any]
) -> None:
    """A worker that is through early waits for the other."""
    write(load, changes)
    master = load.headless(2, "--users", "3")
    workers = load.workers(2)
    assert load.wait(master) == 0, load.said()
    assert [load.wait(worker) for worker in workers] == [0, 0], load.said()
    require_each_once(load)
