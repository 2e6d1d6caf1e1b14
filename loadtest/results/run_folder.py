"""Read what a run left in its folder: one generator's files, or those of all workers as one run.

A worker that was killed has no generator.json; what it wrote still counts, and the run says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fleet.errors import LoadError
from loadtest.results.figures_file import read_figures
from loadtest.results.live_figures import Delta
from loadtest.results.records import (
    FIGURES_FILE,
    GENERATOR_FILE,
    REQUESTS_FILE,
    Generator,
    Record,
    read_generator,
    read_records,
)
from loadtest.results.server_truth import SERVER_FILE, Page, read_pages

WORKER_FOLDERS = "worker-*"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Hold the records of a run by the time of sending, and what its generators say together."""

    records: tuple[Record, ...]
    generator: Generator
    workers: int
    """Processes that sent."""
    lost_workers: tuple[str, ...]
    """Those that were killed before they could say anything about themselves."""
    pages: tuple[Page, ...]
    figures: tuple[Delta, ...] = ()
    """What each generator summed up while it ran: chunk gaps are nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Hold what one worker left."""

    name: str
    records: tuple[Record, ...]
    generator: Generator | None
    began: float
    """Seconds since the epoch."""


def read_run(folder: Path) -> RunFiles:
    """Read a run; raises LoadError when nothing can be judged."""
    pages = read_pages(folder / SERVER_FILE)
    if (folder / REQUESTS_FILE).exists():
        return RunFiles(
            records=tuple(read_records(folder / REQUESTS_FILE)),
            generator=read_generator(folder / GENERATOR_FILE),
            workers=1,
            lost_workers=(),
            pages=pages,
            figures=_figures([folder]),
        )
    parts = [
        _part(path.parent) for path in sorted(folder.glob(f"{WORKER_FOLDERS}/{REQUESTS_FILE}"))
    ]
    if not parts:
        raise LoadError(
            f"{folder}: neither {REQUESTS_FILE} nor {WORKER_FOLDERS}/{REQUESTS_FILE} is there. "
            "Run the load test first, or see its log."
        )
    began = min(part.began for part in parts)
    return RunFiles(
        records=tuple(
            sorted(
                (_moved(record, part.began - began) for part in parts for record in part.records),
                key=lambda record: record.sent_s,
            )
        ),
        generator=_together(folder, parts, began),
        workers=len(parts),
        lost_workers=tuple(part.name for part in parts if part.generator is None),
        pages=pages,
        figures=_figures(folder / part.name for part in parts),
    )


def _figures(folders: Iterable[Path]) -> tuple[Delta, ...]:
    files = (folder / FIGURES_FILE for folder in folders)
    return tuple(read_figures(file) for file in files if file.exists())


def _part(folder: Path) -> _Part:
    requests = folder / REQUESTS_FILE
    records = tuple(read_records(requests))
    if (folder / GENERATOR_FILE).exists():
        generator = read_generator(folder / GENERATOR_FILE)
        began = datetime.fromisoformat(generator.started_at).timestamp()
        return _Part(name=folder.name, records=records, generator=generator, began=began)
    # A record is written when its answer ends: the file changed last when the last answer did.
    last_s = max((record.sent_s + record.e2e_s for record in records), default=0.0)
    began = requests.stat().st_mtime - last_s
    return _Part(name=folder.name, records=records, generator=None, began=began)


def _moved(record: Record, by_s: float) -> Record:
    """Count a worker's times from the start of the run."""
    if not by_s:
        return record
    due_s = None if record.due_s is None else round(record.due_s + by_s, 6)
    return replace(record, sent_s=round(record.sent_s + by_s, 6), due_s=due_s)


def _together(folder: Path, parts: Sequence[_Part], began: float) -> Generator:
    """Make one statement of all workers': sums of load, the worst of what limits."""
    told = [(part.generator, part.began - began) for part in parts if part.generator is not None]
    if not told:
        raise LoadError(
            f"{folder}: every worker was killed before its end: no {GENERATOR_FILE} is there. "
            "See their logs."
        )
    all_of = [generator for generator, _ in told]
    first = all_of[0]
    return replace(
        first,
        started_at=datetime.fromtimestamp(began, UTC).isoformat(timespec="milliseconds"),
        duration_s=round(max(part.duration_s + late_s for part, late_s in told), 3),
        users=sum(part.users for part in all_of),
        sessions_started=sum(part.sessions_started for part in all_of),
        sessions_finished=sum(part.sessions_finished for part in all_of),
        calls_unfinished=sum(part.calls_unfinished for part in all_of),
        cpu_share=max(part.cpu_share for part in all_of),
        machine_cpu_share=max(part.machine_cpu_share for part in all_of),
        lag_p50_ms=max(part.lag_p50_ms for part in all_of),
        lag_p99_ms=max(part.lag_p99_ms for part in all_of),
        gap_histogram=_merged(part.gap_histogram for part in all_of),
        stages=[(name, round(at_s + told[0][1], 3)) for name, at_s in first.stages],
        unwritten=sum(part.unwritten for part in all_of),
    )


def _merged(histograms: Iterable[dict[str, list[float]]]) -> dict[str, list[float]]:
    """Add histograms up: all have the same edges, of which each names those it needs."""
    counts: dict[float, float] = {}
    for columns in histograms:
        for edge, count in zip(columns["le_ms"], columns["count"], strict=True):
            counts[edge] = counts.get(edge, 0.0) + count
    return {"le_ms": sorted(counts), "count": [counts[edge] for edge in sorted(counts)]}
