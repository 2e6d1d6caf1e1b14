"""Show on stderr what the engine does: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.status import Status

from cli.plain import plain
from infra.provision.progress import Progress

_DONE = {
    "create": "created",
    "update": "updated",
    "delete": "deleted",
    "replace": "replaced",
    "create-replacement": "made anew",
    "delete-replaced": "deleted the old",
}


class ShownProgress:
    """Hears of each step; use it as a context manager, so that the live line ends."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._status = Status("", console=self._console) if stream.isatty() else None
        self._running: dict[str, Progress] = {}
        self._ended = 0

    def __enter__(self) -> ShownProgress:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._status:
            self._status.stop()

    def note(self, text: str) -> None:
        """Say something that has to stay visible."""
        self._say(f"  {text}")

    def progress(self, step: Progress) -> None:
        """Tell of one step."""
        key = f"{step.stack} {step.operation} {step.name}"
        if step.state == "begun":
            self._running[key] = step
        elif self._running.pop(key, None) or step.state == "failed":
            self._ended += 1
            self._say(_line(step))
        if self._status:
            self._show()

    def _show(self) -> None:
        assert self._status is not None  # noqa: S101 - asked before
        if not self._running:
            self._status.stop()
            return
        now = next(reversed(self._running.values()))
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        text = f"{self._ended} done; {now.stack}: {now.operation} {now.name}{more}"
        self._status.update(plain(text))
        self._status.start()

    def _say(self, line: str) -> None:
        self._console.print(plain(line), soft_wrap=True)


def _line(step: Progress) -> str:
    if step.state == "failed":
        return f"  {step.stack}: FAILED to {step.operation} {step.name} after {step.seconds:.1f} s"
    done = _DONE.get(step.operation, step.operation)
    return f"  {step.stack}: {done} {step.name} in {step.seconds:.1f} s"
