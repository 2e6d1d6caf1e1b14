"""Claims about what is on disk, whatever happens."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import LoadError
from loadtest.results.recorder import Recorder
from loadtest.results.records import read_generator, read_records
from loadtest.settings import LoadSettings

Make = Callable[..., Any]
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Tell the time that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Make a clock."""
    return Clock()


@pytest.fixture
def recorder(tmp_path: Path, clock: Clock) -> Recorder:
    """Make a recorder into a folder of the test."""
    settings = LoadSettings(
        targets={"us": "http://127.0.0.1:1"}, tokenizer_dir=tmp_path, users=1, out_dir=tmp_path
    )
    return Recorder(settings=settings, clock=clock, started_at=STARTED)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let files grow to so many bytes only: the kernel then takes a part of a line, as a disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_ends_the_run_and_loses_nothing_written(
    recorder: Recorder, tmp_path: Path, make_record: Make
) -> None:
    """Whole lines stay, half of one does not, what found no room is counted, once it is told."""
    told: list[LoadError] = []
    recorder.on_full = told.append
    record = make_record()
    with room_for(3 * len(record.line()) + 20):
        for _ in range(6):
            recorder.add(record, [])
    recorder.finish()
    assert list(read_records(tmp_path / "requests.jsonl")) == [record] * 3
    assert read_generator(tmp_path / "generator.json").unwritten == 3
    assert len(told) == 1
    assert "Free some space" in str(told[0])


def test_a_full_disk_is_an_error_where_nobody_listens(
    recorder: Recorder, make_record: Make
) -> None:
    """A recorder by itself must not go on in silence."""
    with room_for(10), pytest.raises(LoadError, match=r"requests\.jsonl"):
        recorder.add(make_record(), [])


def test_a_stage_is_kept_with_its_start(recorder: Recorder, clock: Clock, tmp_path: Path) -> None:
    """The steady window is found by them; naming the same stage again starts none."""
    recorder.stage = "ramp"
    clock.now_s = 130.0
    recorder.stage = "soak"
    recorder.stage = "soak"
    recorder.finish()
    found = read_generator(tmp_path / "generator.json").stages
    assert [tuple(stage) for stage in found] == [("ramp", 0.0), ("soak", 30.0)]


def test_the_start_is_when_preparation_ended(
    recorder: Recorder, clock: Clock, tmp_path: Path
) -> None:
    """Times in records count from there, and several workers' are brought together by it."""
    clock.now_s += 90
    recorder.restart()
    recorder.finish()
    started = read_generator(tmp_path / "generator.json").started_at
    assert started == "2026-01-01T00:01:30.000+00:00"


def test_nothing_else_is_left(recorder: Recorder, tmp_path: Path) -> None:
    """The room that was kept for the end is given back."""
    recorder.finish()
    assert {path.name for path in tmp_path.iterdir()} == {
        "figures.json",
        "generator.json",
        "requests.jsonl",
    }


def test_an_answer_after_the_end_is_among_the_unfinished(
    recorder: Recorder, tmp_path: Path, make_record: Make
) -> None:
    """Its user is about to be stopped; generator.json is written already."""
    recorder.calls_started = 2
    recorder.add(make_record(), [])
    recorder.finish()
    recorder.add(make_record(turn=2), [])
    assert len(list(read_records(tmp_path / "requests.jsonl"))) == 1
    assert read_generator(tmp_path / "generator.json").calls_unfinished == 1
