"""Run the load generator as a child, in sight, and leave nothing of it behind."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from fleet.errors import EXIT_CONFIG, ConfigError, LoadError
from lab.interrupts import Interrupted, interruptible
from lab.processes import Launcher, Service, end_marked, lab_mark, log_tail
from lab.steps import Step
from lab.traffic import OVERTIME_S, LineCounter, LoadStand
from loadtest.results.records import GENERATOR_FILE, REQUESTS_FILE
from loadtest.results.run_folder import WORKER_FOLDERS
from loadtest.run import STOP_TIMEOUT_S
from loadtest.settings import LoadSettings

NAME = "locust"
POLL_S = 0.5
# After a polite end: calls in flight may finish, then each process writes its files.
GRACE_S = STOP_TIMEOUT_S + 7.0


@dataclass(slots=True, kw_only=True)
class LoadProcess:
    """The generator of one run: Locust, with its workers."""

    settings: LoadSettings
    environ: Mapping[str, str]
    watched: bool
    """Whether somebody at the web page decides when it ends."""
    clock: Callable[[], float] = time.monotonic
    _counters: dict[Path, LineCounter] = field(default_factory=dict)

    def run(self, command: Sequence[str], step: Step) -> bool:
        """Wait for the end of the load; tell whether a signal ended it early.

        Raises LoadError when the generator itself failed, or does not end.
        """
        launcher = Launcher(
            lab_id=lab_mark(f"loadtest-{uuid4().hex}", self.settings.out_dir),
            log_dir=self.settings.out_dir,
            environ=self.environ,
        )
        try:
            with interruptible():
                service = launcher.start(NAME, command)
                interrupted = self._watch(service, step)
        finally:
            launcher.stop()
            end_marked(launcher.lab_id)
        step.detail = f"{self._requests()} requests"
        self._require_good_end(service, interrupted=interrupted)
        return interrupted

    def _watch(self, service: Service, step: Step) -> bool:
        """Wait; a first signal asks the generator to end, and it may say what it did."""
        began = self.clock()
        asked_s = self.settings.longest_s
        stand = LoadStand(planned_s=asked_s, clock=self.clock)
        try:
            while service.running:
                elapsed_s = self.clock() - began
                step.update(stand.text(self._requests()))
                if not self.watched and elapsed_s > asked_s + OVERTIME_S:
                    raise LoadError(
                        f"load test: still running {OVERTIME_S:.0f} s after its end. "
                        f"See {service.log}."
                    )
                with suppress(subprocess.TimeoutExpired):
                    service.process.wait(POLL_S)
        except Interrupted:
            step.progress.note("interrupted: ending the load, then judging what there is")
            if service.running:
                service.process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    service.process.wait(GRACE_S)
            return True
        return False

    def _logs(self) -> list[Path]:
        folder = self.settings.out_dir
        return [part / REQUESTS_FILE for part in (folder, *folder.glob(WORKER_FOLDERS))]

    def _requests(self) -> int:
        for path in self._logs():
            self._counters.setdefault(path, LineCounter(path))
        return sum(counter.count() for counter in self._counters.values())

    def _require_good_end(self, service: Service, *, interrupted: bool) -> None:
        code = service.process.returncode
        sent = any(path.exists() for path in self._logs())
        if sent and (code == 0 or interrupted):
            return
        tail = log_tail(service.log)
        if said := _said(tail):
            kind = ConfigError if code == EXIT_CONFIG else LoadError
            raise kind(f"load test: {said}\nThe log of the generator: {service.log}")
        raise LoadError(
            f"load test: the generator ended with code {code}"
            f"{' before it sent anything' if interrupted else ''}. "
            f"See {service.log}.{self._what_is_left()}\n{tail}"
        )

    def _what_is_left(self) -> str:
        """Propose to judge what workers wrote, where that is enough."""
        folders = {path.parent for path in self._logs() if path.exists()}
        if not any((folder / GENERATOR_FILE).exists() for folder in folders):
            return ""
        return f" What was sent can be judged: k3fleet loadtest report {self.settings.out_dir}"


def _said(tail: str) -> str:
    """Find the error that the generator itself named, the last one; it explains the exit code."""
    found = [text for line in tail.splitlines() if (text := line.partition("error: ")[2])]
    return found[-1].strip() if found else ""
