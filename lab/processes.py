"""Start, find and end the lab's processes.

Every process of a lab carries the lab's id in its environment. So the lab can be ended by
anyone at any time, also after its starter was killed: the kernel is the only record, and no
process without that mark is ever touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fleet.errors import LabError

MARK = "K3FLEET_LAB_ID"
LOG_TAIL_BYTES = 4000


def process_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Leave out what would lead a lab's process away: proxies, and the user's own cluster."""
    return {
        name: value
        for name, value in environ.items()
        if name != "KUBECONFIG" and not name.lower().endswith("_proxy")
    }


def log_tail(path: Path, lines: int = 8) -> str:
    """Return the last lines of a log, for an error message."""
    try:
        with path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])


@dataclass(slots=True)
class Service:
    """One running process with its own session and log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self.process.poll() is None

    def stop(self, grace_s: float) -> int:
        """End the process and its children; return its exit code."""
        if self.running:
            _signal_group(self.process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        _signal_group(self.process.pid, signal.SIGKILL)
        return self.process.wait()


@dataclass(slots=True, kw_only=True)
class Launcher:
    """Starts services of one lab: marked, in sessions of their own, logging to files."""

    lab_id: str
    log_dir: Path
    environ: Mapping[str, str]
    stopping: threading.Event = field(default_factory=threading.Event)
    services: dict[str, Service] = field(default_factory=dict)

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Service:
        """Start a process; its output is appended to `<log_dir>/<name>.log`."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        log_path = self.log_dir / f"{name}.log"
        with log_path.open("ab") as log:
            try:
                process = subprocess.Popen(
                    [str(part) for part in argv],
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    cwd=cwd or self.log_dir,
                    env={**self.environ, **(env or {}), MARK: self.lab_id},
                    start_new_session=True,
                )
            except OSError as error:
                raise LabError(f"{name}: cannot start: {error}. Run `k3fleet doctor`.") from error
        service = Service(name, process, log_path)
        self.services[name] = service
        return service

    def check(self) -> None:
        """Raise when one of the services has ended by itself."""
        for service in list(self.services.values()):
            if not service.running:
                raise LabError(
                    f"{service.name}: ended with code {service.process.returncode}. "
                    f"See {service.log}.\n{log_tail(service.log)}"
                )

    def wait(
        self,
        what: str,
        ready: Callable[[], bool],
        *,
        timeout_s: float,
        every_s: float = 0.1,
    ) -> None:
        """Poll a condition until it holds; fail at once when a service dies."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if self.stopping.is_set():
                raise LabError(f"{what}: not waited for any longer, the lab is ending.")
            if time.monotonic() > deadline:
                raise LabError(f"{what}: not there after {timeout_s:.0f} s. See {self.log_dir}.")
            self.stopping.wait(every_s)

    def stop(self, grace_s: float = 1.0) -> None:
        """End all services together: one grace period for all, then SIGKILL."""
        for service in list(self.services.values()):
            if service.running:
                _signal_group(service.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        for service in reversed(list(self.services.values())):
            service.stop(max(0.0, deadline - time.monotonic()))
        self.services.clear()


def lab_mark(unique: str, work_dir: Path) -> str:
    """Make a lab's id: it names the work folder too, so a lab is found even without its state."""
    return f"{unique} {work_dir}"


def labs_of(work_dir: Path) -> frozenset[str]:
    """Find the ids of the labs that run in a work folder."""
    marks = {mark for _, mark in _marks()}
    return frozenset(mark for mark in marks if mark.partition(" ")[2] == str(work_dir))


def marked(lab_id: str) -> Iterator[psutil.Process]:
    """Find the living processes of a lab by the mark in their environment."""
    return (process for process, mark in _marks() if mark == lab_id)


def _marks() -> Iterator[tuple[psutil.Process, str]]:
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK)
            if mark is not None and process.pid != os.getpid():
                yield process, mark
        except (psutil.Error, OSError):
            continue


def end_marked(lab_id: str, grace_s: float = 2.0) -> int:
    """End every process of a lab, whoever started it; return how many there were."""
    ended = 0
    while processes := list(marked(lab_id)):
        ended += len(processes)
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        _, alive = psutil.wait_procs(processes, timeout=grace_s)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, timeout=grace_s)
    return ended


def resident_bytes(lab_id: str) -> int:
    """Sum the memory of a lab's processes: proportional share where the kernel tells it."""
    total = 0
    for process in marked(lab_id):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
