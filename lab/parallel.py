"""Do the same for every region at once, and end all of them when one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

POLL_S = 0.2  # how soon the waiting main thread sees a signal


def for_each(
    items: Sequence[T], work: Callable[[T], R], *, cancel: Callable[[], None]
) -> tuple[R, ...]:
    """Run the work for all items in threads; on the first failure call `cancel` and raise it.

    `cancel` must make the others end soon: they are waited for, so that nothing runs on.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=POLL_S, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
        except BaseException:
            cancel()
            raise
        return tuple(future.result() for future in futures)
