"""Compare two runs: better, worse, or within the noise of one run.

Where both sent the same sessions (same traffic, seed and scales), each step of a session has its
twin in the other run, and only twins are compared: what made a step slow because it was long is in
both and cancels out. Else the runs are cut into slices of time. Either way the band is an interval
by bootstrap, 95 % for all figures together, over whole sessions (pairs stay together) or over
slices: requests of one session, and of one moment, are not independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadtest.judge.comparison_metrics import METRICS, Figures, Metric
from loadtest.results.records import Record
from loadtest.results.saved_run import SavedRun
from loadtest.settings import LoadSettings

Word = Literal["better", "worse", "within noise", "too few to say", "not measured"]
Step = tuple[str, int]
"""Number of a session without the run's salt, with its sub-agent, and the turn."""

SLICE_S = 10.0
RESAMPLES = 2_000
CONFIDENCE = 0.95  # of all figures together: each alone would cry wolf one time in three
FEWEST_GROUPS = 5  # sessions or slices; an interval from fewer says nothing
# What has to be the same for two runs to be about the same thing.
_SAME_TRAFFIC = (
    "traffic", "seed", "token_scale", "time_scale", "users", "sessions_per_minute", "stages",
    "max_context",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one figure differs: b minus a, with the interval that resampling gives."""

    metric: str
    a: float | None
    b: float | None
    low: float | None
    high: float | None
    word: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Hold how two runs differ."""

    paired: bool
    pairs: int
    """Requests of each run that have a twin in the other; 0 when not paired."""
    differences: tuple[Difference, ...]

    @property
    def worse(self) -> bool:
        """Whether any figure got worse by more than noise."""
        return any(difference.word == "worse" for difference in self.differences)

    @property
    def says_something(self) -> bool:
        """Whether at least one figure could be compared."""
        nothing = {"too few to say", "not measured"}
        return any(difference.word not in nothing for difference in self.differences)


def different_traffic(a: LoadSettings, b: LoadSettings) -> tuple[str, ...]:
    """Name the settings that make the traffic of two runs different."""
    return tuple(
        f"{name}: {getattr(a, name)} and {getattr(b, name)}"
        for name in _SAME_TRAFFIC
        if getattr(a, name) != getattr(b, name)
    )


def compare(a: SavedRun, b: SavedRun, *, seed: int = 1) -> Comparison:
    """Compare all figures of two runs; the same seed gives the same bands."""
    rng = np.random.default_rng(seed)
    twins_a, twins_b = _twins(a.records, b.records)
    paired = not different_traffic(a.settings, b.settings) and bool(twins_a)
    if paired:
        draws_a = draws_b = _Draws.of(map(_session, twins_a), rng)
        records_a, records_b = twins_a, twins_b
    else:
        records_a, records_b = list(a.records), list(b.records)
        draws_a = _Draws.of(map(_slice, records_a), rng)
        draws_b = _Draws.of(map(_slice, records_b), rng)
    return Comparison(
        paired=paired,
        pairs=len(twins_a) if paired else 0,
        differences=tuple(
            _difference(metric, (records_a, draws_a), (records_b, draws_b)) for metric in METRICS
        ),
    )


def step_of(record: Record) -> Step:
    """Name a request as every run with its seed does."""
    return record.session.rpartition("-")[2], record.turn


def _session(record: Record) -> str:
    return step_of(record)[0].partition(".")[0]  # sub-agents belong to their session


def _slice(record: Record) -> str:
    return str(int(record.sent_s // SLICE_S))


def _twins(a: Iterable[Record], b: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Give the requests that both runs made, in the same order."""
    steps_a: Mapping[Step, Record] = {step_of(record): record for record in a}
    steps_b: Mapping[Step, Record] = {step_of(record): record for record in b}
    shared = [step for step in steps_a if step in steps_b]
    return [steps_a[step] for step in shared], [steps_b[step] for step in shared]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draws:
    """How often each group is in each resample, and which group a request is in."""

    group_of: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, names: Iterable[str], rng: np.random.Generator) -> _Draws:
        numbers: dict[str, int] = {}
        group_of = np.array([numbers.setdefault(n, len(numbers)) for n in names], dtype=np.int64)
        size = len(numbers)
        shape = (RESAMPLES, size)
        counts = rng.multinomial(size, [1 / size] * size, RESAMPLES) if size else np.zeros(shape)
        return cls(group_of=group_of, counts=counts.astype(np.int64))

    @property
    def groups(self) -> int:
        return int(self.counts.shape[1])


def _difference(
    metric: Metric,
    a: tuple[Sequence[Record], _Draws],
    b: tuple[Sequence[Record], _Draws],
) -> Difference:
    figures = [metric.figures(records) for records, _ in (a, b)]
    at_a, at_b = (found.value() for found in figures)
    low = high = None
    word: Word = "not measured"
    if at_a is not None and at_b is not None:
        word = "too few to say"
        if min(a[1].groups, b[1].groups) >= FEWEST_GROUPS:
            low, high = _band(figures[0], a[1], figures[1], b[1])
            word = _word(low, high, more_is_better=metric.more_is_better)
    return Difference(metric=metric.name, a=at_a, b=at_b, low=low, high=high, word=word)


def _band(
    figures_a: Figures, draws_a: _Draws, figures_b: Figures, draws_b: _Draws
) -> tuple[float | None, float | None]:
    at_a = figures_a.resampled(draws_a.counts, draws_a.group_of)
    at_b = figures_b.resampled(draws_b.counts, draws_b.group_of)
    differences = at_b - at_a
    found = differences[~np.isnan(differences)]
    if not len(found):
        return None, None
    rest = (1 - CONFIDENCE) / len(METRICS) / 2
    low, high = np.quantile(found, [rest, 1 - rest])
    return float(low), float(high)


def _word(low: float | None, high: float | None, *, more_is_better: bool) -> Word:
    if low is None or high is None:
        return "too few to say"
    if low <= 0 <= high:
        return "within noise"
    return "better" if (low > 0) == more_is_better else "worse"
