"""Show how far each region is: bars with speed and time left on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from fleet.units import format_bytes, format_duration
from infra.weights.work import Work

LINE_S = 30.0  # without a terminal: say at most this often how far each region is


@contextmanager
def watching(
    stream: TextIO, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Mapping[str, Work]], None]]:
    """Give what a run is to call now and then."""
    if not stream.isatty():
        yield _Lines(stream, clock).show
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=False),
        TransferSpeedColumn(),
        TextColumn("{task.fields[left]} left"),
        console=Console(file=stream),
        transient=True,
    ) as bars:
        yield _Bars(bars, clock).show


class _Bars:
    """One bar for each place."""

    def __init__(self, bars: Progress, clock: Callable[[], float]) -> None:
        self._bars, self._clock = bars, clock
        self._tasks: dict[str, TaskID] = {}

    def show(self, works: Mapping[str, Work]) -> None:
        for name, work in works.items():
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, left="?")
            meter = work.meter
            self._bars.update(
                self._tasks[name],
                total=meter.total_bytes,
                completed=min(meter.done_bytes, meter.total_bytes),
                left=_left(work, self._clock()),
            )


class _Lines:
    """One line for each place, now and then."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._said_s = clock()

    def show(self, works: Mapping[str, Work]) -> None:
        now_s = self._clock()
        if now_s - self._said_s < LINE_S:
            return
        self._said_s = now_s
        for name, work in works.items():
            meter = work.meter
            self._stream.write(
                f"  {name}: {format_bytes(meter.done_bytes)} of {format_bytes(meter.total_bytes)}, "
                f"{format_bytes(int(meter.bytes_per_s(now_s)))}/s, {_left(work, now_s)} left\n"
            )
        self._stream.flush()


def _left(work: Work, now_s: float) -> str:
    left_s = work.meter.left_s(now_s)
    return "?" if left_s is None else format_duration(round(left_s))
