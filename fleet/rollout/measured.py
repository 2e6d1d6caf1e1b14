"""Measure what an estimate assumes of a step, from the steps that a rollout has done.

Pure. Each number is the median over steps that went through forwards: of a region where regions
are updated one after the other, of a replica for questions. It goes into `assumed` of a strategy
as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from fleet.rollout.record import Phase
from fleet.rollout.story import StepStory


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What steps took, in seconds."""

    steps: int
    drain_s: float  # `drain_share`: of the release's budget
    update_s: float
    start_s: float  # weights and warm-up together, as the cluster sees them: until Ready
    register_s: float
    questions_s: float
    window_s: float  # until traffic was enough for the gates


def measured(steps: Iterable[StepStory]) -> Measured | None:
    """Measure; None where no step went through."""
    done = [(step, phase_seconds(step)) for step in steps if step.whole and not step.back]
    if not done:
        return None

    def usual(of: Callable[[StepStory, Mapping[Phase, float]], float]) -> float:
        return round(median(of(step, seconds) for step, seconds in done), 2)

    return Measured(
        steps=len(done),
        drain_s=usual(lambda _step, s: s["drain"]),
        update_s=usual(
            lambda step, s: (
                (s["preflight"] + s["assign"] + s["apply"] + s["verify"]) / len(step.regions)
            )
        ),
        start_s=usual(lambda _step, s: s["ready"]),
        register_s=usual(lambda _step, s: s["registered"] + s["restore"]),
        # The gates end with a second round of the same questions.
        questions_s=usual(lambda step, s: 2 * s["smoke"] / max(step.most, 1)),
        window_s=usual(lambda _step, s: max(s["gates"] - s["smoke"], 0.0)),
    )


def phase_seconds(step: StepStory) -> Mapping[Phase, float]:
    """Say how long each phase took, all its tries together."""
    found: dict[Phase, float] = defaultdict(float)
    for span in step.spans:
        found[span.phase] += (span.to_s or span.from_s) - span.from_s
    return found
