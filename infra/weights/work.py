"""Move bytes in several threads that keep to one rate and stop together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from fleet.weights.pace import Meter, TokenBucket
from fleet.weights.parts import MIB

FILES_AT_ONCE = 4  # of one region: while one is read back, the parts of others are sent


class StoppedError(Exception):
    """Something else went wrong, or somebody asked to stop: this thread has ended in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run may take. Each of its threads holds one part in memory at most."""

    concurrency: int = 8
    part_bytes: int = 16 * MIB
    copy_bytes: int = 256 * MIB  # of a part that the store copies by itself
    whole_bytes: int = 8 * MIB  # files up to here are sent in one request
    bytes_per_s: float | None = None

    def shared_by(self, regions: int) -> Limits:
        """Give the share of one of several regions that are filled at once."""
        share = max(1, self.concurrency // max(1, regions))
        return Limits(
            concurrency=share,
            part_bytes=self.part_bytes,
            copy_bytes=self.copy_bytes,
            whole_bytes=self.whole_bytes,
            bytes_per_s=self.bytes_per_s,
        )


class Pace:
    """The rate that all regions of a run share, and the clock that it is measured by."""

    def __init__(self, bytes_per_s: float | None, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._bucket = TokenBucket(bytes_per_s, clock())
        self._lock = threading.Lock()

    def take(self, count: int, meter: Meter) -> float:
        """Count bytes, and say how many seconds to wait before they may be moved."""
        with self._lock:
            now_s = self.clock()
            meter.move(count, now_s)
            return self._bucket.take(count, now_s)

    def skip(self, count: int, meter: Meter) -> None:
        """Count bytes that were moved before."""
        with self._lock:
            meter.skip(count)


class Work:
    """The threads of one region. Everything that moves bytes asks `allow` first."""

    def __init__(self, limits: Limits, pace: Pace) -> None:
        self.limits, self.pace = limits, pace
        self.meter = Meter(0, pace.clock())
        self.stop = threading.Event()
        self._parts = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="part")

    @contextmanager
    def running(self) -> Iterator[None]:
        """End all threads with the block; after an error as soon as each of them can."""
        try:
            yield
        except BaseException:
            self.stop.set()
            raise
        finally:
            self._parts.shutdown(wait=True, cancel_futures=self.stop.is_set())

    def allow(self, count: int) -> None:
        """Wait until bytes may be moved, and count them; StoppedError when none may any more."""
        wait_s = self.pace.take(count, self.meter)
        if self.stop.wait(wait_s) if wait_s else self.stop.is_set():
            raise StoppedError

    def skip(self, count: int) -> None:
        """Count bytes that need not be moved."""
        self.pace.skip(count, self.meter)

    def expect(self, count: int) -> None:
        """Say how many bytes there will be to move, done ones among them."""
        self.meter.total_bytes += count

    def parts(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run jobs of a file in the threads that all files share; raise the first error."""
        self._all([self._parts.submit(job) for job in jobs])

    def files(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run jobs of whole files, a few at once; raise the first error."""
        with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="file") as pool:
            self._all([pool.submit(self._unless_stopped, job) for job in jobs])

    def _unless_stopped(self, job: Callable[[], None]) -> None:
        if self.stop.is_set():
            raise StoppedError
        job()

    def _all(self, futures: list[Future[None]]) -> None:
        """Wait for all; an error stops the others, and the one that came first is raised."""
        _, left = wait(futures, return_when=FIRST_EXCEPTION)
        if left:
            self.stop.set()
        for future in left:
            future.cancel()
        wait(left)
        failed = [one.exception() for one in futures if not one.cancelled()]
        errors = [error for error in failed if error is not None]
        causes = [error for error in errors if not isinstance(error, StoppedError)]
        for error in (*causes, *errors):
            raise error
