"""Keep what the page shows of a test: figures of all processes, their health, and the last hour.

Fed by reports, which say what is new; pure of Locust and Flask, so that every number on the page
can be tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

from loadtest.play.search import Figures, Found, Trial
from loadtest.results.health_figures import Health
from loadtest.results.histogram import Histogram
from loadtest.results.live_figures import LiveFigures
from loadtest.results.result_options import ResultOptions
from loadtest.results.server_truth import Page

MOST_SAMPLES = 900
_STALE_S = 10.0  # a process that did not report for so long is shown as silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Hold one point of the charts; per region what was seen since the last point."""

    at_s: float
    stage: str
    users: int
    sessions: int
    offered: float | None
    errors_per_s: float
    requests_per_s: float
    output_tokens_per_s: float
    regions: Mapping[str, Mapping[str, float | None]]


@dataclass(slots=True)
class Board:
    """Add up reports for the page."""

    clock: Callable[[], float] = perf_counter
    options: ResultOptions = field(default_factory=ResultOptions)
    problem: str = ""
    """Why the last start failed."""
    trials: Sequence[Trial] = ()
    found: Found | None = None
    workers: dict[str, Health] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    figures: LiveFigures = field(init=False)
    lag: Histogram = field(default_factory=Histogram)
    ttft: dict[tuple[str, str], Histogram] = field(default_factory=dict)
    """Of each replica, by its region and name."""
    pages: Sequence[Page] = ()
    """What servers count, where their pages are named."""
    _window: LiveFigures = field(init=False)
    _trial: LiveFigures = field(init=False)
    _trial_lag: Histogram = field(default_factory=Histogram)
    _seen_s: dict[str, float] = field(default_factory=dict)
    _every: int = 1
    _ticks: int = 0
    _sampled_s: float = 0.0

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.clear(self.options)

    def clear(self, options: ResultOptions) -> None:
        """Forget the last test."""
        self.options, self.problem = options, ""
        self.figures, self._window, self._trial = (LiveFigures(options) for _ in range(3))
        self.lag, self._trial_lag = Histogram(), Histogram()
        self.workers, self._seen_s, self.samples, self.ttft = {}, {}, [], {}
        self.trials, self.found, self.pages = (), None, ()
        self._every, self._ticks, self._sampled_s = 1, 0, self.clock()

    def take(self, process: str, report: Mapping[str, Any]) -> None:
        """Add what one process reports; an empty report is nothing."""
        if not report.get("figures"):
            return
        for figures in (self.figures, self._window, self._trial):
            figures.merge(report["figures"])
        for region, replica, packed in report.get("ttft", ()):
            histogram = self.ttft.setdefault((region, replica), Histogram())
            histogram.merge(Histogram.unpacked(packed))
        health = Health.of(report["health"])
        for lag in (self.lag, self._trial_lag):
            lag.merge(health.lag)
        self.workers[process], self._seen_s[process] = health, self.clock()

    def sample(self, offered: float | None) -> None:
        """Add a point to the charts; old points thin out, so that their number is bounded."""
        now_s = self.clock()
        self._ticks += 1
        if self._ticks % self._every or not self.workers:
            return
        passed_s, self._sampled_s = max(now_s - self._sampled_s, 1e-3), now_s
        totals = self._window.totals(passed_s)
        self.samples.append(
            Sample(
                at_s=round(max(health.at_s for health in self.workers.values()), 1),
                stage=next(iter(self.workers.values())).stage,
                users=self._sum("users"),
                sessions=self._sum("sessions"),
                offered=offered,
                errors_per_s=round(totals["errors"] / passed_s, 3),
                requests_per_s=round(totals["requests"] / passed_s, 3),
                output_tokens_per_s=round(totals["output_tokens_per_s"], 1),
                regions=_regions(self._window, passed_s),
            )
        )
        self._window = LiveFigures(self.options)
        if len(self.samples) > MOST_SAMPLES:
            self.samples, self._every = self.samples[::2], self._every * 2

    def elapsed_s(self) -> float:
        """Tell how long the test has been on, by what its processes say."""
        return max((health.at_s for health in self.workers.values()), default=0.0)

    def is_played_out(self, processes: int) -> bool:
        """Tell whether as many processes as play have nothing left to play."""
        over = [name for name, health in self.workers.items() if health.played_out]
        return sum(not self.is_silent(name) for name in over) >= processes

    def is_silent(self, process: str) -> bool:
        """Tell whether a process has not reported for a while."""
        return self.clock() - self._seen_s[process] > _STALE_S

    def begin_trial(self) -> None:
        """Measure from now on."""
        self._trial, self._trial_lag = LiveFigures(self.options), Histogram()

    def trial_figures(self) -> Figures:
        """Give what was measured since the trial began."""
        totals = self._trial.totals(1.0)
        return Figures(
            requests=totals["requests"],
            errors=totals["errors"],
            ttft_p95_ms=self._trial.histogram("ttft").rank(0.95),
            tpot_p95_ms=self._trial.histogram("tpot").rank(0.95),
            hit_ratio=totals["ratio"],
            lag_p99_ms=self._trial_lag.rank(0.99) or 0.0,
        )

    def show_trials(self, trials: Sequence[Trial], found: Found | None = None) -> None:
        """Show how far the search is."""
        self.trials, self.found = tuple(trials), found

    def state(self) -> dict[str, Any]:
        """Give what the charts page draws."""
        return {
            "samples": [asdict(sample) for sample in self.samples],
            "trials": [asdict(trial) for trial in self.trials],
            "found": None if self.found is None else asdict(self.found),
            "problem": self.problem,
        }

    def gate_figures(self) -> dict[str, float | None]:
        """Give the figures so far by the names that gates use; what is not known is left out."""
        if not self.workers:
            return {}
        elapsed_s = self.elapsed_s()
        totals = self.figures.totals(elapsed_s)
        requests, errors = totals["requests"], totals["errors"]
        good = requests - errors
        found: dict[str, float | None] = {
            "requests": requests,
            "errors": errors,
            "error_rate": errors / requests if requests else None,
            "requests_per_s": requests / elapsed_s if elapsed_s else None,
            "output_tokens_per_s": totals["output_tokens_per_s"] if elapsed_s else None,
            "hit.achieved": totals["hit"],
            "hit.attainable": totals["attainable_hit"],
            "hit.ratio": totals["ratio"],
            "hit.reported_share": 1 - totals["unreported"] / good if good else None,
            "generator.lag_p50_ms": self.lag.rank(0.50),
            "generator.lag_p99_ms": self.lag.rank(0.99),
            "generator.sessions_started": self._sum("sessions_started"),
            "generator.cpu_share": max(health.cpu_share for health in self.workers.values()),
            "generator.users": self._sum("users"),
        }
        for metric, name in (
            ("ttft", "ttft_ms"), ("e2e", "e2e_ms"), ("tpot", "tpot_ms"), ("chunk_gap", "gap_ms"),
        ):  # fmt: skip
            histogram = self.figures.histogram(metric)
            for share in (50, 95, 99):
                found[f"{name}.p{share}"] = histogram.rank(share / 100)
        return found

    def _sum(self, name: str) -> int:
        return sum(int(getattr(health, name)) for health in self.workers.values())


def _regions(figures: LiveFigures, passed_s: float) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {
        row["region"]: {
            "hit": row["hit"],
            "attainable": row["attainable_hit"],
            "errors_per_s": round(row["errors"] / passed_s, 3),
            "ttft_p50_ms": None,
            "ttft_p95_ms": None,
        }
        for row in figures.hit_rows("region")
    }
    for row in figures.latency_rows("region"):
        if row["metric"] == "ttft" and row["region"] in found:
            found[row["region"]] |= {"ttft_p50_ms": row["p50_ms"], "ttft_p95_ms": row["p95_ms"]}
    return found
