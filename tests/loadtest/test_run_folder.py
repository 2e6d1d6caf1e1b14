"""Claims about reading a run's folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import LoadError
from loadtest.results.records import Generator, Record
from loadtest.results.run_folder import read_run

Make = Callable[..., Any]
EPOCH_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def write(folder: Path, records: list[Record], generator: Generator | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requests.jsonl").write_bytes(b"".join(record.line() for record in records))
    if generator is not None:
        (folder / "generator.json").write_text(generator.text())


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000+00:00"


def test_workers_are_one_run(tmp_path: Path, make_record: Make, make_generator: Make) -> None:
    """Times count from the first worker's start; loads add up, limits are of the worst."""
    write(tmp_path / "worker-0", [make_record(sent_s=5.0, due_s=4.0)], make_generator())
    other = make_generator(
        started_at=at(3), duration_s=20.0, cpu_share=0.9, lag_p99_ms=50.0, users=5
    )
    write(tmp_path / "worker-1", [make_record(sent_s=1.0, session="s-2")], other)
    run = read_run(tmp_path)
    assert [(r.session, r.sent_s, r.due_s) for r in run.records] == [
        ("s-2", 4.0, None),
        ("s-1", 5.0, 4.0),
    ]
    told = run.generator
    assert (told.duration_s, told.users, told.cpu_share, told.lag_p99_ms) == (23.0, 7, 0.9, 50.0)
    assert told.gap_histogram == {"le_ms": [10.0, 20.0, 40.0], "count": [2.0, 16.0, 2.0]}
    assert (run.workers, run.lost_workers) == (2, ())


def test_a_killed_worker_still_counts_and_is_named(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """Its start is when its file changed last, less its last answer's end."""
    write(tmp_path / "worker-0", [make_record()], make_generator())
    write(tmp_path / "worker-1", [make_record(sent_s=2.0, e2e_s=1.0)], None)
    os.utime(tmp_path / "worker-1/requests.jsonl", (EPOCH_S + 10, EPOCH_S + 10))
    run = read_run(tmp_path)
    assert run.lost_workers == ("worker-1",)
    assert [record.sent_s for record in run.records] == [0.0, 9.0]


def test_a_run_of_killed_workers_cannot_be_judged(tmp_path: Path, make_record: Make) -> None:
    """Nobody says whether the generator was the limit."""
    write(tmp_path / "worker-0", [make_record()], None)
    with pytest.raises(LoadError, match="every worker was killed"):
        read_run(tmp_path)


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    """As when the load test never began."""
    with pytest.raises(LoadError, match=r"requests\.jsonl"):
        read_run(tmp_path)


def test_one_generator_is_read_as_before(
    tmp_path: Path, make_record: Make, make_generator: Make
) -> None:
    """A rehearsal's folder."""
    write(tmp_path, [make_record()], replace(make_generator(), stages=[("soak", 1.0)]))
    run = read_run(tmp_path)
    assert (list(run.records), run.workers, run.pages) == ([make_record()], 1, ())
