"""Write what the generator saw while it runs, and what it says about itself at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import psutil

from fleet.errors import LoadError
from loadtest.live_figures import LiveFigures
from loadtest.quantiles import nearest_rank
from loadtest.records import GENERATOR_FILE, REQUESTS_FILE, Generator, Record
from loadtest.settings import LoadSettings

Clock = Callable[[], float]

_LAG_SAMPLES = 200_000


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
    sessions_started: int = 0
    sessions_finished: int = 0
    most_users: int = 0
    calls_started: int = 0
    calls_ended: int = 0
    stage: str = ""
    """Stamped on records by whoever sends; set by whoever runs stages."""
    figures: LiveFigures = field(init=False)
    _start_s: float = field(init=False)
    _lags_s: list[float] = field(init=False, default_factory=list)
    _cpu: _Cpu = field(init=False)
    _file: BinaryIO = field(init=False)

    def __post_init__(self) -> None:
        self.figures = LiveFigures(self.settings.results)
        self.restart()
        path = self.settings.out_dir / REQUESTS_FILE
        try:
            self.settings.out_dir.mkdir(parents=True, exist_ok=True)
            (self.settings.out_dir / GENERATOR_FILE).unlink(missing_ok=True)
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise LoadError(f"{path}: {error.strerror}. Give a folder with space.") from error

    def restart(self, elapsed_s: float = 0.0) -> None:
        """Let the run begin now, or some seconds ago: what came before was preparation."""
        self._start_s = self.clock() - elapsed_s
        self._cpu = _Cpu.now()

    def now_s(self) -> float:
        """Tell the seconds since the start of the run."""
        return self.clock() - self._start_s

    def add(self, record: Record, gaps_s: Sequence[float]) -> None:
        """Write one record. Raises LoadError when the disk is full."""
        self.calls_ended += 1
        self.figures.add(record, gaps_s)
        try:
            self._file.write(record.line())
        except OSError as error:
            path = self.settings.out_dir / REQUESTS_FILE
            raise LoadError(f"{path}: {error.strerror}. Free some space.") from error

    def lag(self, late_s: float) -> None:
        """Note how late something happened that had a due time."""
        if len(self._lags_s) < _LAG_SAMPLES:
            self._lags_s.append(max(0.0, late_s))

    def finish(self) -> Path:
        """Write generator.json and close the request log; safe to call twice."""
        self._file.close()
        path = self.settings.out_dir / GENERATOR_FILE
        try:
            path.write_text(self._generator().text(), encoding="utf-8")
        except OSError as error:
            raise LoadError(f"{path}: {error.strerror}. Free some space.") from error
        return path

    def _generator(self) -> Generator:
        duration_s = max(self.now_s(), 1e-9)
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
            calls_unfinished=self.calls_started - self.calls_ended,
            cpu_share=round((after.own_s - before.own_s) / duration_s, 4),
            machine_cpu_share=round(min(1.0, (after.busy_s - before.busy_s) / total_s), 4),
            lag_p50_ms=round(nearest_rank(lags_ms, 0.50) or 0.0, 3),
            lag_p99_ms=round(nearest_rank(lags_ms, 0.99) or 0.0, 3),
            gap_histogram=self.figures.histogram("chunk_gap").columns(),
            seed=settings.seed,
            token_scale=settings.token_scale,
            time_scale=settings.time_scale,
            dataset=settings.traffic,
            versions={name: version(name) for name in ("locust", "gevent", "geventhttpclient")},
        )
