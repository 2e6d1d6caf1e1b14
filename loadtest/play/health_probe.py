"""Look at the generator's own process from time to time."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import psutil

from loadtest.play.agents import Play
from loadtest.results.health_figures import Health
from loadtest.results.histogram import Histogram


class HealthProbe:
    """Look at this process from time to time."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._process = psutil.Process()
        self._at_s, self._cpu_s, self._chunks = perf_counter(), self._cpu(), 0

    def take(self, users: int) -> dict[str, Any]:
        """Give the state since the last time, ready to be sent."""
        play = self._play
        recorder = play.run.recorder
        now_s, cpu_s = perf_counter(), self._cpu()
        passed_s = max(now_s - self._at_s, 1e-3)
        lags, play.lags = play.lags, Histogram()
        health = Health(
            at_s=round(recorder.now_s(), 3),
            stage=recorder.stage,
            users=users,
            sessions=users if play.arrivals is None else play.arrivals.sessions,
            sessions_started=recorder.sessions_started,
            arrivals_due=play.arrivals_due,
            calls_in_flight=recorder.calls_started - recorder.calls_ended,
            cpu_share=round((cpu_s - self._cpu_s) / passed_s, 4),
            memory_bytes=self._process.memory_info().rss,
            events_per_s=round((play.chunks - self._chunks) / passed_s, 1),
            played_out=play.is_played_out,
            lags=tuple(lags.packed()),
        )
        self._at_s, self._cpu_s, self._chunks = now_s, cpu_s, play.chunks
        return health.plain()

    def _cpu(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)
