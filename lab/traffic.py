"""Run the load generator beside the lab until its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import LoadError
from lab.lab import Lab
from lab.processes import log_tail
from lab.steps import Step
from loadtest.results.records import GENERATOR_FILE, REQUESTS_FILE
from loadtest.run import generator_command
from loadtest.settings import LoadSettings

# Start of Locust, calibration, ramp and the last streams: far below it on 2 cores.
OVERTIME_S = 180.0


def run_traffic(lab: Lab, settings: LoadSettings, step: Step, *, web_port: int | None) -> None:
    """Start Locust as a process of the lab and wait for its end.

    With the web UI the user may change users and time there, so there is no deadline. Raises
    LoadError when the generator fails or leaves no result.
    """
    command = generator_command(settings, python=lab.settings.toolchain.python, web_port=web_port)
    began = time.monotonic()
    service = lab.start_job("traffic", command)
    requests = LineCounter(settings.out_dir / REQUESTS_FILE)
    stand = LoadStand(planned_s=settings.duration_s)
    if web_port is not None:
        step.progress.note(f"web UI: http://127.0.0.1:{web_port}")
    while service.running:
        lab.check()
        elapsed = time.monotonic() - began
        if web_port is None:
            step.update(stand.text(requests.count()))
            if elapsed > settings.duration_s + OVERTIME_S:
                service.stop(grace_s=5.0)
                raise LoadError(
                    f"traffic: still running {OVERTIME_S:.0f} s after its end. See {service.log}."
                )
        lab.pause(0.5)
    if not (settings.out_dir / GENERATOR_FILE).exists():
        raise LoadError(
            f"traffic: the generator ended with code {service.process.returncode} and left no "
            f"result. See {service.log}.\n{log_tail(service.log)}"
        )
    step.detail = f"{requests.count()} requests"


@dataclass(slots=True, kw_only=True)
class LoadStand:
    """Says how a load stands. Its start is the first answer: what came before was preparation."""

    planned_s: float
    clock: Callable[[], float] = time.monotonic
    _began: float | None = None

    def text(self, requests: int) -> str:
        """Tell seconds of load and requests so far."""
        if self._began is None and requests:
            self._began = self.clock()
        if self._began is None:
            return "starting, no request has ended yet"
        elapsed_s = self.clock() - self._began
        if elapsed_s > self.planned_s:
            return f"the {self.planned_s:.0f} s are over, ending; {requests} requests"
        return f"{elapsed_s:.0f} of {self.planned_s:.0f} s, {requests} requests"


class LineCounter:
    """Counts the lines of a growing file; each look reads only what is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines = 0

    def count(self) -> int:
        """Return the number of whole lines so far."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while chunk := file.read(1 << 20):
                    self._lines += chunk.count(b"\n")
                    self._offset += len(chunk)
        return self._lines
