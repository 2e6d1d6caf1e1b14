"""Run Pulumi processes and leave none behind.

A killed parent used to leave the command line holding the stack's lock, and a
killed command line its provider. So each update is a session of its own: a
signal to us is passed on as the interrupt that lets the engine save its state,
we wait for it, and afterwards whatever is left of the session is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import psutil

from fleet.errors import ToolError

# An interrupted engine ends within a second (measured), unless a request to the API server hangs.
STOP_GRACE_S = 60.0
_POLL_S = 0.2
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process to run."""

    argv: tuple[str, ...]
    folder: Path
    env: Mapping[str, str]
    log: Path


def run_all(commands: Sequence[Command], clock: Callable[[], float] = time.monotonic) -> list[int]:
    """Run commands side by side and return their exit codes.

    On SIGINT or SIGTERM all are interrupted and waited for; then the signal
    takes the effect on us that it would have had.
    """
    children: list[subprocess.Popen[bytes]] = []
    with _Interrupts(clock) as interrupts:
        try:
            for command in commands:
                children.append(_start(command))  # noqa: PERF401 - all that started must end
            codes = [_wait(child, children, interrupts) for child in children]
        finally:
            for child in children:
                _kill_session(child)
    if interrupts.received:
        signal.raise_signal(interrupts.received)
        raise KeyboardInterrupt  # whoever handles the signal only took note of it
    return codes


class _Interrupts(AbstractContextManager["_Interrupts"]):
    """Take note of signals while the block runs, to pass them on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.received: signal.Signals | None = None
        self._clock = clock
        self._deadline = 0.0
        self._told: set[int] = set()
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _PASSED_ON:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def pass_on(self, children: Sequence[subprocess.Popen[bytes]]) -> None:
        """Interrupt each child once; kill those that had time enough to stop."""
        if self.received is None:
            return
        for child in children:
            with suppress(ProcessLookupError):
                if self._clock() > self._deadline:
                    child.kill()
                elif child.pid not in self._told:
                    self._told.add(child.pid)
                    os.killpg(child.pid, signal.SIGINT)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        # The second time means now.
        grace_s = STOP_GRACE_S if self.received is None else 0.0
        self.received = signal.Signals(number)
        self._deadline = self._clock() + grace_s


def _start(command: Command) -> subprocess.Popen[bytes]:
    try:
        with command.log.open("wb") as log:
            return subprocess.Popen(
                command.argv,
                cwd=command.folder,
                env=command.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except FileNotFoundError as error:
        raise ToolError(
            f"{command.argv[0]}: not found on PATH. Run `k3fleet doctor` to see what is missing."
        ) from error


def _wait(
    child: subprocess.Popen[bytes],
    children: Sequence[subprocess.Popen[bytes]],
    interrupts: _Interrupts,
) -> int:
    while True:
        try:
            return child.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            interrupts.pass_on(children)


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    """Kill what a child started; its plugins have process groups of their own."""
    if child.poll() is None:
        child.kill()
        child.wait()
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == child.pid:
                os.kill(pid, signal.SIGKILL)
