"""Run the truth server and compare what a client measured with what was written.

An error is the client's moment of arrival minus the server's moment of writing, on one clock: what
the server was late with, and what the request took to get there, is in neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

SLOW_WRITE_S = 0.0005  # the server lost its core while it wrote: nobody knows when that was
SERVER = Path(__file__).resolve().parents[1] / "tests" / "support" / "truth_server.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Hold one load: so many streams at once, each one answer after the other."""

    streams: int
    rounds: int
    events: int
    gap_s: float

    @property
    def events_per_s(self) -> float:
        """Give the rate while all streams run."""
        return self.streams / self.gap_s

    @property
    def total_events(self) -> int:
        """Give the number of events with a token."""
        return self.streams * self.rounds * self.events

    @property
    def script(self) -> list[dict[str, Any]]:
        """Give what the server does with each request, the same for all clients."""
        paced = {"count": self.events, "gap_s": self.gap_s}
        return [
            {"wait": 0.05},
            {"spread": self.gap_s},
            {"events": paced},
            {"usage": {}},
            {"done": True},
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Hold what a client says of one answer; moments on the machine's monotonic clock."""

    id: str
    first_s: float
    gaps_s: list[float]


@dataclass(slots=True, kw_only=True)
class Result:
    """Hold one client under one load, over all its runs."""

    cpu_us_per_event: list[float]
    """One figure a run."""
    ttft_errors_ms: list[float]
    gap_errors_ms: list[float]
    server_late_ms: list[float]
    answers: int
    waited: list[float] = field(default_factory=list)
    """Share of the time for which the client waited for its core, by run; others had it."""

    def add(self, other: Result) -> None:
        """Take the figures of another run."""
        self.cpu_us_per_event += other.cpu_us_per_event
        self.ttft_errors_ms += other.ttft_errors_ms
        self.gap_errors_ms += other.gap_errors_ms
        self.server_late_ms += other.server_late_ms
        self.answers += other.answers
        self.waited += other.waited

    @property
    def judged(self) -> float:
        """Give the share of the answers of which the server knows when it wrote them."""
        return len(self.ttft_errors_ms) / self.answers

    @property
    def worst_p99_ms(self) -> float:
        """Give the larger p99 of the absolute errors, of TTFT or of the gaps."""
        return max(quantile(self.ttft_errors_ms, 0.99), quantile(self.gap_errors_ms, 0.99))


def pin(core: int) -> None:
    """Bind this process to one core, where there are several."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core % len(cores)]})


@contextmanager
def truth_server() -> Iterator[str]:
    """Run the server on a core of its own and give its URL."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, preexec_fn=lambda: pin(1), **pipes) as server:  # noqa: PLW1509
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.terminate()


def take_truth(url: str) -> dict[str, Any]:
    """Fetch, and make the server forget, what it wrote so far."""
    with urllib.request.urlopen(f"{url}/truth") as answer:  # noqa: S310 - our own server
        truth: dict[str, Any] = json.load(answer)
    return truth


def quantile(values: Sequence[float], share: float) -> float:
    """Give the nearest-rank quantile; infinite of nothing, which then meets no limit."""
    if not values:
        return inf
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def waited_s() -> float:
    """Give how long this process was ready to run and had no core: proc(5), schedstat."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def compare(seen: Sequence[Seen], truth: dict[str, Any], cpu_us_per_event: float) -> Result:
    """Join what was seen with what was written."""
    told = {answer["id"]: answer for answer in truth["answers"]}
    first_ms: list[float] = []
    gaps_ms: list[float] = []
    for answer in seen:
        moments, took_s = told[answer.id]["written_s"], told[answer.id]["took_s"]
        if took_s[0] <= SLOW_WRITE_S:
            first_ms.append(abs(answer.first_s - moments[0]) * 1000)
        if max(took_s) <= SLOW_WRITE_S:
            gaps_ms += _gap_errors_ms(answer, moments)
    late_ms = [
        (wrote - due) * 1000
        for answer in truth["answers"]
        for wrote, due in zip(answer["written_s"], answer["due_s"], strict=True)
    ]
    return Result(
        cpu_us_per_event=[cpu_us_per_event],
        ttft_errors_ms=first_ms,
        gap_errors_ms=gaps_ms,
        server_late_ms=late_ms,
        answers=len(seen),
    )


def _gap_errors_ms(answer: Seen, written: Sequence[float]) -> list[float]:
    """Compare gap by gap; where several events are one arrival, with those that were written."""
    true_gaps = [after - before for before, after in pairwise(written)]
    if len(answer.gaps_s) == len(true_gaps):
        pairs = zip(answer.gaps_s, true_gaps, strict=True)
        return [abs(gap - true) * 1000 for gap, true in pairs]
    errors, arrival_s, last, position = [], answer.first_s, written[0], 0
    for gap_s in answer.gaps_s:
        arrival_s += gap_s
        while position + 1 < len(written) and written[position + 1] <= arrival_s:
            position += 1
        errors.append(abs(gap_s - (written[position] - last)) * 1000)
        last = written[position]
    return errors
