"""Write down which workers took part in a run, so that a lost one cannot be overlooked.

workers.json lies in the master's folder of results, and is written again with every change: what
it says holds even when the master is killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import LoadError

WORKERS_FILE = "workers.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEntry:
    """Hold one worker; times are seconds since the start of the run."""

    index: int
    client_id: str
    joined_s: float
    lost_s: float | None = None

    @property
    def folder(self) -> str:
        """Name the folder of its results, beside the master's."""
        return f"worker-{self.index}"


@dataclass(slots=True, kw_only=True)
class WorkersFile:
    """Hold who took part in a run; `ended_s` is None until it is over."""

    run_id: str
    folder: Path
    ended_s: float | None = None
    workers: dict[str, WorkerEntry] = field(default_factory=dict)

    def join(self, worker: WorkerEntry) -> None:
        """Add a worker."""
        self.workers[worker.client_id] = worker
        self._write()

    def lose(self, client_id: str, at_s: float) -> None:
        """Note that a worker is gone."""
        worker = self.workers.get(client_id)
        if worker is not None and worker.lost_s is None:
            self.workers[client_id] = replace(worker, lost_s=round(at_s, 3))
            self._write()

    def regain(self, client_id: str) -> None:
        """Note that a worker that seemed lost is there."""
        worker = self.workers.get(client_id)
        if worker is not None and worker.lost_s is not None:
            self.workers[client_id] = replace(worker, lost_s=None)
            self._write()

    def finish(self, at_s: float) -> None:
        """Note that the run is over."""
        self.ended_s = round(at_s, 3)
        self._write()

    @property
    def faults(self) -> list[str]:
        """Say why the run is no whole run; empty when it is one."""
        ordered = sorted(self.workers.values(), key=lambda worker: worker.index)
        lost = [
            f"{worker.folder} was lost after {worker.lost_s:.0f} s"
            for worker in ordered
            if worker.lost_s is not None
        ]
        if self.ended_s is None:
            lost.append("the master was lost before the end")
        return lost

    def _write(self) -> None:
        path = self.folder / WORKERS_FILE
        ordered = sorted(self.workers.values(), key=lambda worker: worker.index)
        document = {
            "run_id": self.run_id,
            "ended_s": self.ended_s,
            "workers": [asdict(worker) | {"folder": worker.folder} for worker in ordered],
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            written = path.with_suffix(".new")
            written.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
            written.replace(path)
        except OSError as error:
            raise LoadError(f"{path}: {error.strerror}. Give a folder with space.") from error


def read_workers(folder: Path) -> WorkersFile | None:
    """Read workers.json; None where there is none: the test was one process."""
    path = folder / WORKERS_FILE
    try:
        document: Mapping[str, Any] = orjson.loads(path.read_bytes())
        workers = [
            WorkerEntry(**{key: value for key, value in item.items() if key != "folder"})
            for item in document["workers"]
        ]
        return WorkersFile(
            run_id=document["run_id"],
            folder=folder,
            ended_s=document["ended_s"],
            workers={worker.client_id: worker for worker in workers},
        )
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise LoadError(f"{path}: not readable ({error}). Run the load test again.") from error
