"""Write what the generator saw while it runs, and what it says about itself at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import orjson
import psutil

from fleet.errors import LoadError
from loadtest.results.live_figures import LiveFigures
from loadtest.results.quantiles import nearest_rank
from loadtest.results.records import FIGURES_FILE, GENERATOR_FILE, REQUESTS_FILE, Generator, Record
from loadtest.settings import LoadSettings

Clock = Callable[[], float]

_LAG_SAMPLES = 200_000

# Room for generator.json, taken at the start, so that a run that fills the disk can be judged.
_RESERVE_FILE = ".generator.reserve"
_RESERVE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cpu:
    """Hold CPU seconds at one moment: our own, and all cores' busy and total."""

    own_s: float
    busy_s: float
    total_s: float

    @classmethod
    def now(cls) -> _Cpu:
        own = psutil.Process().cpu_times()
        machine = psutil.cpu_times()
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        # Linux counts guest time in user time already.
        total = sum(machine) - getattr(machine, "guest", 0.0) - getattr(machine, "guest_nice", 0.0)
        return cls(own_s=own.user + own.system, busy_s=total - idle, total_s=total)


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Take records and lags of one run; every line is on disk when `add` returns."""

    settings: LoadSettings
    clock: Clock
    started_at: datetime
    """When this was made; moves on with `restart`."""
    sessions_started: int = 0
    sessions_finished: int = 0
    most_users: int = 0
    calls_started: int = 0
    calls_ended: int = 0
    stages: list[tuple[str, float]] = field(default_factory=list)
    """Each stage and when it began."""
    on_full: Callable[[LoadError], None] | None = None
    """Told once that the disk is full: whoever runs the test ends it."""
    unwritten: int = 0
    """Records for which there was no room."""
    figures: LiveFigures = field(init=False)
    _start_s: float = field(init=False)
    _lags_s: list[float] = field(init=False, default_factory=list)
    _cpu: _Cpu = field(init=False)
    _file: BinaryIO = field(init=False)
    _size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.figures = LiveFigures(self.settings.results)
        self._start_s = self.clock()
        self.restart()
        path = self._path(REQUESTS_FILE)
        try:
            self.settings.out_dir.mkdir(parents=True, exist_ok=True)
            self._path(GENERATOR_FILE).unlink(missing_ok=True)
            self._path(_RESERVE_FILE).write_bytes(bytes(_RESERVE_BYTES))
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise LoadError(f"{path}: {error.strerror}. Give a folder with space.") from error

    def restart(self, elapsed_s: float = 0.0) -> None:
        """Let the run begin now, or some seconds ago: what came before was preparation."""
        now_s = self.clock() - elapsed_s
        self.started_at += timedelta(seconds=now_s - self._start_s)
        self._start_s = now_s
        self._cpu = _Cpu.now()
        self.stages.clear()

    @property
    def stage(self) -> str:
        """Name the stage of now, which whoever sends stamps on records; "" = none."""
        return self.stages[-1][0] if self.stages else ""

    @stage.setter
    def stage(self, name: str) -> None:
        if name != self.stage:
            self.stages.append((name, round(self.now_s(), 3)))

    def now_s(self) -> float:
        """Tell the seconds since the start of the run."""
        return self.clock() - self._start_s

    def add(self, record: Record, gaps_s: Sequence[float]) -> None:
        """Write one record, whole or not at all.

        When the disk is full the run is over: `on_full` is told once, and what comes later is
        counted. Without `on_full` that is a LoadError.
        """
        if self._file.closed:  # the run is over, and this is among its unfinished calls
            return
        self.calls_ended += 1
        self.figures.add(record, gaps_s)
        if self.unwritten:
            self.unwritten += 1
            return
        line = record.line()
        try:
            _write_all(self._file, line)
            self._size += len(line)
        except OSError as error:
            self.unwritten = 1
            self._file.truncate(self._size)  # half a line is no record
            path = self._path(REQUESTS_FILE)
            full = LoadError(f"{path}: {error.strerror}. Free some space and run again.")
            if self.on_full is None:
                raise full from error
            self.on_full(full)

    def lag(self, late_s: float) -> None:
        """Note how late something happened that had a due time."""
        if len(self._lags_s) < _LAG_SAMPLES:
            self._lags_s.append(max(0.0, late_s))

    def finish(self) -> Path:
        """Write generator.json and figures.json and close the request log; safe to call twice."""
        self._file.close()
        path = self._path(GENERATOR_FILE)
        try:
            self._path(_RESERVE_FILE).unlink(missing_ok=True)  # its room is for what follows
            path.write_text(self._generator().text(), encoding="utf-8")
            self._path(FIGURES_FILE).write_bytes(orjson.dumps(self.figures.plain()) + b"\n")
        except OSError as error:
            raise LoadError(f"{path}: {error.strerror}. Free some space.") from error
        return path

    def _path(self, name: str) -> Path:
        return self.settings.out_dir / name

    def _generator(self) -> Generator:
        duration_s = max(self.now_s(), 0.001)
        before, after = self._cpu, _Cpu.now()
        total_s = max(after.total_s - before.total_s, 1e-9)
        lags_ms = [late_s * 1000 for late_s in self._lags_s]
        settings = self.settings
        return Generator(
            started_at=self.started_at.astimezone(UTC).isoformat(timespec="milliseconds"),
            duration_s=round(duration_s, 3),
            users=self.most_users,
            sessions_started=self.sessions_started,
            sessions_finished=self.sessions_finished,
            calls_unfinished=max(0, self.calls_started - self.calls_ended),
            cpu_share=round((after.own_s - before.own_s) / duration_s, 4),
            machine_cpu_share=round(
                min(max((after.busy_s - before.busy_s) / total_s, 0.0), 1.0), 4
            ),
            lag_p50_ms=round(nearest_rank(lags_ms, 0.50) or 0.0, 3),
            lag_p99_ms=round(nearest_rank(lags_ms, 0.99) or 0.0, 3),
            gap_histogram=self.figures.histogram("chunk_gap").columns(),
            seed=settings.seed,
            token_scale=settings.token_scale,
            time_scale=settings.time_scale,
            dataset=settings.traffic,
            stages=self.stages,
            unwritten=self.unwritten,
            versions={name: version(name) for name in ("locust", "gevent", "geventhttpclient")},
        )


def _write_all(file: BinaryIO, line: bytes) -> None:
    """Write a line; a disk that is nearly full takes a part of it."""
    while line:
        line = line[file.write(line) :]
