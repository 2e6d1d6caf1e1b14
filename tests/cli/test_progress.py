"""Progress is for whoever looks; nobody looking must not stop the work."""

from __future__ import annotations

import io

from cli.progress import TerminalProgress
from lab.traffic import LoadStand


class ClosedTerminal(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_preparation_is_no_load():
    """Locust, traces and calibration take ten seconds, and 30 of 18 s says nothing."""
    now = iter([100.0, 100.0, 107.0, 120.0])
    stand = LoadStand(planned_s=18.0, clock=lambda: next(now))
    assert stand.text(0) == "starting, no request has ended yet"
    assert stand.text(3) == "0 of 18 s, 3 requests"
    assert stand.text(36) == "7 of 18 s, 36 requests"
    assert stand.text(355) == "the 18 s are over, ending; 355 requests"


def test_a_closed_terminal_is_no_error():
    """The lab is ended after the line that says so: an exception there would leave it running."""
    progress = TerminalProgress(ClosedTerminal())
    progress.step("end")
    progress.update("still")
    progress.done("end", 1.0, "ok", "all processes ended")


def test_without_a_terminal_every_line_is_whole_and_plain():
    """CI logs keep what is printed: no control characters."""
    stream = io.StringIO()
    progress = TerminalProgress(stream, clock=lambda: 0.0)
    progress.step("cluster")
    progress.done("cluster", 5.25, "ok", "2 control planes")
    assert stream.getvalue() == "  cluster …\n✓ cluster        5.2 s  2 control planes\n"


def test_on_a_terminal_the_end_of_a_step_replaces_its_line():
    """One line per step is what a person wants to read."""
    stream = Terminal()
    progress = TerminalProgress(stream, clock=lambda: 0.0)
    progress.step("cluster")
    progress.done("cluster", 5.0, "ok", "up")
    assert stream.getvalue().split("\r\033[K")[-1] == "✓ cluster        5.0 s  up\n"
