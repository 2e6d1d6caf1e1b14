"""Do a phase in all regions of a step: side by side what waits, in turn what runs an engine.

The first region that is not well ends the waits of the others: they are looked at again with the
next try of the phase, or turned back with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event, Lock

from fleet.errors import BusyError, FleetError
from fleet.rollout.record import Phase
from infra.rollout.driver import Result

# These only look, ask, wait and move sessions. The others write files and run an engine, which
# hears of a signal where the main thread waits for it.
ABREAST: frozenset[Phase] = frozenset(
    {"drain", "ready", "registered", "smoke", "restore", "gates", "soak"}
)
MOST_ABREAST = 16  # regions


class Halt:
    """What ends the waits of a phase: somebody asked for it, or a region is not well."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked, self._called, self._lock = asked, Event(), Lock()

    def __call__(self) -> bool:
        """Say whether to end; whoever reads requests is not asked by two regions at once."""
        if self.called:
            return True
        with self._lock:
            return self._asked()

    @property
    def called(self) -> bool:
        """Whether a region is not well."""
        return self._called.is_set()

    def call(self) -> None:
        """End all waits."""
        self._called.set()


def in_turn(regions: Mapping[str, Callable[[], Result]]) -> Mapping[str, Result]:
    """Do one after the other, up to the first that is not well; give what came, in that order."""
    came = {}
    for name, do in regions.items():
        came[name] = do()
        if came[name].outcome != "ok":
            break
    return came


def abreast(
    regions: Mapping[str, Callable[[], Result]], halt: Halt, most: int = MOST_ABREAST
) -> Mapping[str, Result]:
    """Do all at the same time; give what came, the first to end first.

    An error of one region is raised once all have ended, unless the release has failed in another:
    that must not stay hidden behind it. That somebody else drives now, or a signal, ends it all.
    """
    came: dict[str, Result] = {}

    def do(name: str) -> None:
        if halt.called:
            return
        try:
            came[name] = regions[name]()
        except BaseException:
            halt.call()
            raise
        if came[name].outcome != "ok":
            halt.call()

    with ThreadPoolExecutor(most) as pool:
        started = [pool.submit(do, name) for name in regions]
        try:
            wait(started)
        except BaseException:
            halt.call()
            raise
    _raise_from(started, came.values())
    return came


def _raise_from(ended: Iterable[Future[None]], came: Iterable[Result]) -> None:
    errors = [error for region in ended if (error := region.exception())]
    grave = [e for e in errors if isinstance(e, BusyError) or not isinstance(e, FleetError)]
    if errors and (grave or all(result.outcome != "failed" for result in came)):
        raise [*grave, *errors][0]
