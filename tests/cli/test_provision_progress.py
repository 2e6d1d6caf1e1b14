"""What a long update says."""

from __future__ import annotations

import io

from cli.provision_progress import ShownProgress
from infra.provision.progress import Progress


def step(state: str, name: str, seconds: float = 0.0) -> Progress:
    return Progress(stack="s", state=state, operation="create", name=name, seconds=seconds)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_each_object_gets_a_line_when_it_is_done() -> None:
    """In a job's log: object, operation, seconds, and what failed."""
    stream = io.StringIO()
    with ShownProgress(stream) as show:
        show.progress(step("begun", "Service/k3/[a]"))
        show.progress(step("done", "Service/k3/[a]", 1.25))
        show.progress(step("failed", "Service/k3/b\x1b[31m", 2.0))
        show.note("noted")
    first, second, third = stream.getvalue().splitlines()
    assert first == "  s: created Service/k3/[a] in 1.2 s"
    assert second.startswith("  s: FAILED to create Service/k3/b")
    assert "\x1b" not in second
    assert third == "  noted"


def test_a_terminal_shows_what_runs_and_gets_its_line_back() -> None:
    """A live line that is left on the screen hides the prompt."""
    stream = Terminal()
    with ShownProgress(stream) as show:
        show.progress(step("begun", "Service/k3/a"))
        show.progress(step("begun", "Service/k3/b"))
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is shown again
