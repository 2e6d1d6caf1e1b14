"""Follow what the engine says while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from infra.stack_events import CHANGES_NOTHING, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One step of an update."""

    stack: str
    state: Literal["begun", "done", "failed"]
    operation: str
    name: str
    seconds: float = 0.0


class Reporter(Protocol):
    """Who is told how it goes."""

    def progress(self, step: Progress) -> None:
        """Hear of one step."""
        ...

    def note(self, text: str) -> None:
        """Hear something that has to stay visible."""
        ...


@dataclass(slots=True)
class Tail:
    """Reads a file that grows, whole lines only; it may not be there yet."""

    file: Path
    _at: int = 0
    _half: bytes = b""

    def lines(self) -> Iterator[str]:
        """Give the lines that were added since the last time."""
        try:
            with self.file.open("rb") as grown:
                grown.seek(self._at)
                added = grown.read()
        except FileNotFoundError:
            return
        self._at += len(added)
        *whole, self._half = (self._half + added).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")


@dataclass(slots=True, kw_only=True)
class Watch:
    """Turns the events of one update into steps."""

    stack: str
    tail: Tail
    reporter: Reporter
    clock: Callable[[], float]
    _since: dict[str, float] = field(default_factory=dict)

    def __call__(self) -> None:
        """Tell what has happened since the last call."""
        for line in self.tail.lines():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                self._hear(Part(event))

    def _hear(self, event: Part) -> None:
        if step := event.part("resourcePreEvent"):
            self._tell("begun", step)
        elif step := event.part("resOutputsEvent"):
            self._tell("done", step)
        elif step := event.part("resOpFailedEvent"):
            self._tell("failed", step)

    def _tell(self, state: Literal["begun", "done", "failed"], step: Part) -> None:
        metadata = step.part("metadata")
        operation, urn = str(metadata.get("op", "")), str(metadata.get("urn", ""))
        if operation in CHANGES_NOTHING or str(metadata.get("type", "")).startswith("pulumi:"):
            return
        now = self.clock()
        began = self._since.setdefault(f"{operation} {urn}", now)
        self.reporter.progress(
            Progress(
                stack=self.stack,
                state=state,
                operation=operation,
                name=urn.rpartition("::")[2],
                seconds=now - began,
            )
        )
