"""Tell a record as a story: which step went through which phase, from when to when.

Pure. The record has only moments; what they belong to follows from the state at each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fleet.rollout.record import (
    Asked,
    Began,
    Ended,
    Entry,
    Outcome,
    Phase,
    RecordedStep,
    Started,
)
from fleet.rollout.state import State, after, read_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One try of a phase; `to_s` is None where no outcome was written: its driver died in it."""

    step: int  # from 1, in the order of the plan
    wave: str
    replicas: tuple[str, ...]  # or what a region shares
    regions: tuple[str, ...]
    back: bool  # towards the old release
    phase: Phase
    from_s: float  # Unix time
    to_s: float | None = None
    outcome: Outcome | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStory:
    """A step on its way to one release: all its tries, from the first phase to the last."""

    step: int
    wave: str
    replicas: tuple[str, ...]
    regions: tuple[str, ...]
    most: int  # replicas in one region
    back: bool
    spans: tuple[Span, ...]
    whole: bool  # it went through its last phase

    @property
    def from_s(self) -> float:
        """When it began."""
        return self.spans[0].from_s

    @property
    def to_s(self) -> float | None:
        """When it ended; None while its last phase is open."""
        return self.spans[-1].to_s

    @property
    def seconds(self) -> float | None:
        """How long it took without the soak of its wave, which is chosen and not needed."""
        if self.to_s is None:
            return None
        soaked = sum((s.to_s or s.from_s) - s.from_s for s in self.spans if s.phase == "soak")
        return self.to_s - self.from_s - soaked


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened in a rollout, in order."""

    steps: tuple[StepStory, ...]
    asked: tuple[Asked, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """All tries of all phases."""
        return tuple(span for step in self.steps for span in step.spans)


def story(entries: Sequence[Entry]) -> Story:
    """Read a whole record; raise ConfigError for one that no rollout can have written."""
    state = read_state(entries[:1])
    numbers = {
        name: number for number, step in enumerate(state.started.steps, 1) for name in step.names
    }
    spans: list[Span] = []
    ends: list[bool] = []  # whether the step was over behind a span
    for entry in entries[1:]:
        assert not isinstance(entry, Started)  # noqa: S101 - read_state refuses a second one
        if isinstance(entry, Began):
            spans.append(_began(state, entry, numbers))
            ends.append(False)
        before, state = state, after(state, entry)
        if isinstance(entry, Ended) and spans:
            spans[-1] = replace(spans[-1], to_s=entry.at_s, outcome=entry.outcome, why=entry.why)
            ends[-1] = state.queue[:1] != before.queue[:1] and state.back == before.back
    return Story(
        steps=tuple(_steps(spans, ends, state.started.steps)),
        asked=tuple(entry for entry in entries if isinstance(entry, Asked)),
    )


def _began(state: State, entry: Began, numbers: Mapping[str, int]) -> Span:
    step = state.queue[0]
    return Span(
        step=numbers[step.names[0]],
        wave=step.wave,
        replicas=step.names,
        regions=step.regions,
        back=state.back,
        phase=entry.phase,
        from_s=entry.at_s,
    )


def _steps(
    spans: Sequence[Span], ends: Sequence[bool], planned: Sequence[RecordedStep]
) -> Iterable[StepStory]:
    """Group tries by their step; one that was turned round begins anew on its way back."""
    pairs = list(zip(spans, ends, strict=True))
    for _, group in groupby(pairs, key=lambda pair: (pair[0].step, pair[0].back)):
        own = list(group)
        first = own[0][0]
        yield StepStory(
            step=first.step,
            wave=first.wave,
            replicas=first.replicas,
            regions=first.regions,
            most=planned[first.step - 1].most,
            back=first.back,
            spans=tuple(span for span, _ in own),
            whole=own[-1][1],
        )
