"""Run Pulumi processes and leave none behind.

A killed parent used to leave the command line holding the stack's lock, and a
killed command line its provider. So each update is a session of its own: a
signal to us is passed on as the interrupt that lets the engine save its state,
we wait for it, and afterwards whatever is left of the session is killed.

Work on one region is a track: a generator that yields one command after the
other and is sent the exit code of each. Tracks run side by side, and none waits
for another.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Generic, TypeVar

import psutil

from fleet.errors import ToolError

# An interrupted engine ends within a second (measured), unless a request to the API server hangs.
STOP_GRACE_S = 60.0
_POLL_S = 0.05
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process to run; `watch` is called again and again while it runs, and once after."""

    argv: tuple[str, ...]
    folder: Path
    env: Mapping[str, str]
    log: Path
    watch: Callable[[], None] = field(default=lambda: None)


Track = Generator[Command, int, ResultT]


def run_tracks(
    tracks: Sequence[Track[ResultT]],
    clock: Callable[[], float] = time.monotonic,
    on_kill: Callable[[], None] = lambda: None,
) -> list[ResultT]:
    """Run tracks side by side and return what each came to.

    On SIGINT, SIGTERM or SIGHUP all commands are interrupted and waited for, and
    no further one is started; then the signal takes the effect on us that it
    would have had. A second signal kills them: `on_kill` says what to do then.
    """
    runs = [_Run(track) for track in tracks]
    with _Interrupts(clock) as interrupts:
        try:
            for run in runs:
                run.advance(None)
            pause = threading.Event()
            while sum(run.poll(go_on=interrupts.received is None) for run in runs):
                interrupts.pass_on([run.child for run in runs if run.child])
                pause.wait(_POLL_S)
        finally:
            for run in runs:
                run.end()
    if interrupts.killed:
        on_kill()
    if interrupts.received:
        signal.raise_signal(interrupts.received)
        raise KeyboardInterrupt  # whoever handles the signal only took note of it
    return [result for run in runs for result in run.results]


class _Run(Generic[ResultT]):
    """One track and the command that it is at."""

    def __init__(self, track: Track[ResultT]) -> None:
        self.results: list[ResultT] = []  # one when the track is over
        self.child: subprocess.Popen[bytes] | None = None
        self._track = track
        self._watch: Callable[[], None] = lambda: None

    def advance(self, code: int | None) -> None:
        """Tell the track how its command ended, and start the next one."""
        try:
            command = next(self._track) if code is None else self._track.send(code)
        except StopIteration as over:
            self.results.append(over.value)
            return
        self.child = _start(command)
        self._watch = command.watch

    def poll(self, *, go_on: bool) -> bool:
        """Look after the command; say whether the track is still under way."""
        if self.child is None:
            return False
        code = self.child.poll()
        self._watch()
        if code is None:
            return True
        ended, self.child = self.child, None
        _kill_session(ended)
        if go_on:
            self.advance(code)
        return self.child is not None

    def end(self) -> None:
        """Kill what still runs, and let the track put its files in order."""
        if self.child is not None:
            _kill_session(self.child)
            self.child = None
        self._track.close()


class _Interrupts(AbstractContextManager["_Interrupts"]):
    """Take note of signals while the block runs, to pass them on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.received: signal.Signals | None = None
        self.killed = False
        self._clock = clock
        self._deadline = 0.0
        self._told: set[int] = set()
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            # What the caller chose to ignore (nohup) stays ignored.
            for number in _PASSED_ON:
                if signal.getsignal(number) != signal.SIG_IGN:
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
                    self.killed = True
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
    with command.log.open("wb") as log:
        try:
            return subprocess.Popen(
                command.argv,
                cwd=command.folder,
                env=command.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:  # not there, or a program for another machine
            raise ToolError(
                f"{command.argv[0]}: cannot be started: {error.strerror}. "
                "Run `k3fleet doctor` to see what is missing."
            ) from error


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    """Kill what a child started; its plugins have process groups of their own."""
    if child.poll() is None:
        child.kill()
        child.wait()
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == child.pid:
                os.kill(pid, signal.SIGKILL)
