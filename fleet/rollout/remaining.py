"""Say how long a rollout still takes, from its plan and from the steps that it has done.

Pure. The plan's estimate is one guess; each step that went through is a better one. So all steps to
come are as many times longer than planned as those were, with the plan itself counted as one step
more: a single step that was slow by chance does not triple the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.rollout.record import Entry
from fleet.rollout.state import OVER, State
from fleet.rollout.story import StepStory, story

# Past it something is wrong, and no factor tells when it will be right.
SLOWEST, FASTEST = 4.0, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """An estimate, and what it was learnt from."""

    seconds: float
    factor: float  # of the plan's times
    steps: int  # that went through


def remaining(state: State, entries: Sequence[Entry], now_s: float) -> Remaining | None:
    """Estimate; None where nothing is left, or where the plan has left no times.

    The way back has neither gates nor soaks: there it is an upper bound.
    """
    planned = [step.expected_s for step in state.started.steps]
    expected = [number for number in planned if number is not None]
    if state.status in OVER or not state.queue or len(expected) != len(planned):
        return None
    told = story(entries)
    factor, steps = _learnt(told.steps, expected)
    own = [((step.expected_s or 0.0) * factor, step.soak_s) for step in state.queue]
    done_s = now_s - told.steps[-1].from_s if state.touched and told.steps else 0.0
    return Remaining(
        seconds=sum(map(sum, own)) - min(max(done_s, 0.0), sum(own[0])),
        factor=factor,
        steps=steps,
    )


def _learnt(steps: Sequence[StepStory], expected: Sequence[float]) -> tuple[float, int]:
    """Compare what steps took with what they were to take; one planned step counts as done."""
    pairs = [
        (step.seconds, expected[step.step - 1])
        for step in steps
        if step.whole and not step.back and step.seconds is not None
    ]
    usual_s = sum(expected) / len(expected)
    took_s = usual_s + sum(took for took, _ in pairs)
    wanted_s = usual_s + sum(wanted for _, wanted in pairs)
    factor = took_s / wanted_s if wanted_s else 1.0
    return min(max(factor, FASTEST), SLOWEST), len(pairs)
