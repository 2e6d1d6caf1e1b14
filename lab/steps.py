"""Record the steps of a rehearsal: what each one took, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

Status = Literal["ok", "failed", "skipped"]


class StepProgress(Protocol):
    """What is told of the steps while they run; a superset of what tool builds tell."""

    def step(self, name: str) -> None:
        """Begin a step."""

    def update(self, text: str) -> None:
        """Say how the current step stands."""

    def note(self, text: str) -> None:
        """Say something that has to stay visible."""

    def done(self, name: str, seconds: float, status: Status, detail: str) -> None:
        """End a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """How one step ended."""

    name: str
    seconds: float
    status: Status
    detail: str


@dataclass(slots=True)
class Step:
    """The running step: set `detail` to what its line shall say in the end."""

    progress: StepProgress
    detail: str = ""

    def update(self, text: str) -> None:
        """Say how the step stands."""
        self.progress.update(text)


@dataclass(slots=True, kw_only=True)
class Steps:
    """The steps so far."""

    progress: StepProgress
    clock: Callable[[], float]
    says_errors: bool = True
    """Whether the line of a failed step says why; not where the next line is the error itself."""
    results: list[StepResult] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Run a step: its time and its end are recorded, whatever happens in it."""
        began = self.clock()
        self.progress.step(name)
        step = Step(self.progress)
        try:
            yield step
        except BaseException as error:
            first_line = str(error).partition("\n")[0]
            self._end(name, began, "failed", first_line or type(error).__name__)
            raise
        self._end(name, began, "ok", step.detail)

    def skip(self, name: str, why: str) -> None:
        """Record a step that was not run."""
        self._add(StepResult(name=name, seconds=0.0, status="skipped", detail=why))

    def _end(self, name: str, began: float, status: Status, detail: str) -> None:
        self._add(StepResult(name=name, seconds=self.clock() - began, status=status, detail=detail))

    def _add(self, result: StepResult) -> None:
        self.results.append(result)
        detail = result.detail if self.says_errors or result.status != "failed" else ""
        self.progress.done(result.name, result.seconds, result.status, detail)
