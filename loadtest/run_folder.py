"""Read the folder of a run, whether one process made it or several workers did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from fleet.errors import ConfigError, LoadError
from loadtest.records import (
    GENERATOR_FILE,
    REQUESTS_FILE,
    Generator,
    Record,
    read_generator,
    read_records,
)
from loadtest.run_facts import RunFacts, read_facts
from loadtest.settings import SETTINGS_FILE, LoadSettings, read_settings

WORKER_FOLDERS = "worker-*"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """Hold what a run left."""

    path: Path
    settings: LoadSettings
    facts: RunFacts
    records: tuple[Record, ...]
    generator: Generator
    lost: tuple[str, ...]
    """Workers that sent requests and did not get to say how they did."""


def read_run(path: Path) -> RunFolder:
    """Read a run folder; raises ConfigError that names the file that is missing or damaged."""
    if not path.is_dir():
        raise ConfigError(f"{path}: is no folder. Give the folder of a load test.")
    settings = _read_settings(path)
    parts = part_folders(path)
    if not parts:
        raise ConfigError(
            f"{path}: holds no {REQUESTS_FILE}, and no worker's folder does. "
            "Give the folder of a load test."
        )
    ended = [part for part in parts if (part / GENERATOR_FILE).exists()]
    if not ended:
        raise ConfigError(
            f"{path / GENERATOR_FILE}: is missing: the load generator was killed before its end. "
            "Its requests alone say nothing about who was slow. Run the load test again."
        )
    return RunFolder(
        path=path,
        settings=settings,
        facts=read_facts(path),
        records=tuple(_as_input(lambda: list(_records(parts)))),
        generator=_as_input(lambda: merge([read_generator(p / GENERATOR_FILE) for p in ended])),
        lost=tuple(part.name for part in parts if part not in ended),
    )


def require_new(folder: Path) -> None:
    """Raise ConfigError for a folder in which two runs would mix."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder}: is not empty, and results of two runs would mix. Give another --out."
        )


def part_folders(path: Path) -> tuple[Path, ...]:
    """Name the folders with requests: the run's own, or one for each worker."""
    found = [path, *sorted(path.glob(WORKER_FOLDERS))]
    return tuple(part for part in found if (part / REQUESTS_FILE).is_file())


def merge(generators: Sequence[Generator]) -> Generator:
    """Join what the workers of a run say: sums of work, and the worst of health."""
    first = min(generators, key=lambda generator: generator.started_at)
    return replace(
        first,
        duration_s=max(g.duration_s for g in generators),
        users=sum(g.users for g in generators),
        sessions_started=sum(g.sessions_started for g in generators),
        sessions_finished=sum(g.sessions_finished for g in generators),
        calls_unfinished=sum(g.calls_unfinished for g in generators),
        cpu_share=max(g.cpu_share for g in generators),
        machine_cpu_share=max(g.machine_cpu_share for g in generators),
        lag_p50_ms=max(g.lag_p50_ms for g in generators),
        lag_p99_ms=max(g.lag_p99_ms for g in generators),
        gap_histogram=_add_histograms([g.gap_histogram for g in generators]),
    )


def _add_histograms(columns: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    """Add counts edge by edge; all workers use the same edges, each only a part of them."""
    total: Counter[float] = Counter()
    for histogram in columns:
        total.update(dict(zip(histogram["le_ms"], histogram["count"], strict=True)))
    edges = sorted(total)
    return {"le_ms": edges, "count": [total[edge] for edge in edges]}


def _records(parts: Sequence[Path]) -> Iterator[Record]:
    for part in parts:
        yield from read_records(part / REQUESTS_FILE)


def _read_settings(path: Path) -> LoadSettings:
    file = path / SETTINGS_FILE
    if not file.exists():
        raise ConfigError(
            f"{file}: is missing, so nobody knows what was sent. Give the folder of a load test."
        )
    return read_settings(file)


def _as_input(read: Callable[[], T]) -> T:
    """Say of a damaged file what it is to this reader: bad input."""
    try:
        return read()
    except LoadError as error:
        raise ConfigError(str(error)) from error
