"""Show on stderr how a long command stands: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Literal, TextIO

from fleet.units import format_duration

QUIET_S = 30.0  # without a terminal: say at most this often that a step still runs
REDRAW_S = 0.2
WIDTH = 100
MARKS = {"ok": "✓", "failed": "✗", "skipped": "-"}


class TerminalProgress:
    """Writes steps to a stream; what a step says while it runs replaces its own line."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream.isatty()
        self._open = False  # whether the last line may still be overwritten
        self._name = ""
        self._began = clock()
        self._shown_at = clock()

    def step(self, name: str) -> None:
        """Begin a step; the line of one that was not ended stays."""
        if self._live and self._open:
            self._write("\n")
        self._name = name
        self._began = self._shown_at = self._clock()
        self._show(f"  {name} …", whole=True)

    def update(self, text: str) -> None:
        """Say how the step stands."""
        pause = REDRAW_S if self._live else QUIET_S
        if self._clock() - self._shown_at < pause:
            return
        self._shown_at = self._clock()
        elapsed = format_duration(round(self._clock() - self._began))
        self._show(f"  {self._name} … {elapsed}  {text}")

    def note(self, text: str) -> None:
        """Say something that has to stay visible."""
        self._clear()
        self._write(f"  {text}\n")

    def done(
        self, name: str, seconds: float, status: Literal["ok", "failed", "skipped"], detail: str
    ) -> None:
        """End a step with its time and a remark."""
        self._clear()
        self._write(f"{MARKS[status]} {name:<10} {seconds:7.1f} s  {detail}\n")

    def _show(self, line: str, *, whole: bool = False) -> None:
        self._clear()
        cut = line if whole else line[:WIDTH]
        self._write(cut if self._live else line + "\n")
        self._open = True

    def _clear(self) -> None:
        if self._live:
            self._write("\r\033[K")
        self._open = False

    def _write(self, text: str) -> None:
        """Write, unless nobody reads any more: a closed terminal must not stop the clean-up."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
