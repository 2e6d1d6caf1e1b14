"""Run the source or several regions at once, watch them, and end them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from fleet.errors import FleetError
from infra.weights.work import StoppedError, Work

LOOK_S = 0.5  # between two looks at how far each one is

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[ResultT]):
    """What is done in one place, and the threads that it may use."""

    work: Work
    do: Callable[[], ResultT]

    def run(self) -> ResultT:
        """Do it; its threads end with it."""
        with self.work.running():
            return self.do()


Watch = Callable[[Mapping[str, Work]], None]


def run_all(
    jobs: Mapping[str, Job[ResultT]], watch: Watch, say: Callable[[str], None]
) -> Mapping[str, ResultT]:
    """Run all jobs, each by its own; one that fails leaves the others going.

    The first error is raised when all have ended, after the others were said. An interrupt stops
    all of them, between two chunks.
    """
    works = {name: job.work for name, job in jobs.items()}
    with ThreadPoolExecutor(max(1, len(jobs)), thread_name_prefix="place") as pool:
        futures = {name: pool.submit(job.run) for name, job in jobs.items()}
        try:
            while wait(futures.values(), timeout=LOOK_S).not_done:
                watch(works)
        except BaseException:
            for work in works.values():
                work.stop.set()
            raise
    watch(works)
    _raise_first([error for one in futures.values() if (error := one.exception())], say)
    return {name: future.result() for name, future in futures.items()}


def _raise_first(errors: list[BaseException], say: Callable[[str], None]) -> None:
    causes = [error for error in errors if not isinstance(error, StoppedError)]
    bugs = [error for error in causes if not isinstance(error, FleetError)]
    ordered = [*bugs, *(error for error in causes if error not in bugs), *errors]
    if not ordered:
        return
    told = {str(ordered[0])}
    for error in causes:
        if str(error) not in told:
            told.add(str(error))
            say(f"error: {error}")
    raise ordered[0]
