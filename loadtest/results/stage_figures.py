"""Say what each stage of a run did: of all of them, only the steady ones are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadtest.results.quantiles import Spread, spread_ms
from loadtest.results.records import Generator, Record
from loadtest.results.steady import steady_window


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFigures:
    """Hold the requests sent in one stage; times are seconds since the start of the run."""

    name: str
    from_s: float
    to_s: float
    judged: bool
    requests: int
    errors: int
    requests_per_s: float
    ttft_ms: Spread


def stage_figures(records: Sequence[Record], generator: Generator) -> tuple[StageFigures, ...]:
    """Compute the figures of each stage that began; none for a run without stages."""
    window = steady_window(generator)
    ends = pairwise([*generator.stages, ("", generator.duration_s)])
    return tuple(
        _stage(
            name,
            (from_s, to_s),
            [record for record in records if from_s <= record.sent_s < to_s],
            judged=window.staged and window.from_s <= from_s < window.to_s,
        )
        for (name, from_s), (_, to_s) in ends
        if to_s > from_s
    )


def _stage(
    name: str, span: tuple[float, float], sent: Sequence[Record], *, judged: bool
) -> StageFigures:
    good = [record for record in sent if record.error is None]
    return StageFigures(
        name=name,
        from_s=round(span[0], 3),
        to_s=round(span[1], 3),
        judged=judged,
        requests=len(sent),
        errors=len(sent) - len(good),
        requests_per_s=round(len(sent) / (span[1] - span[0]), 3),
        ttft_ms=spread_ms(record.ttft_s for record in good if record.ttft_s is not None),
    )
