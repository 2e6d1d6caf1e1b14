"""Find out which connections have something to read, for all of them at once.

A wake-up for each packet costs more than all that is done with its event. The kernel notes when
bytes arrive (`loadtest.client.arrival`), so they need not be fetched at once: connections are
looked at once a millisecond while many answers come, and between those looks the event loop
serves others.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from time import perf_counter
from typing import Any

import gevent
from gevent.monkey import get_original

PERIOD_S = 0.001
# Locust takes `epoll` out of `select`, as waiting by it stops the event loop; nobody here waits.
_epoll: Any = get_original("select", "epoll")


class Readiness:
    """Call back for each connection with something to read; one of these for each event loop."""

    def __init__(self) -> None:
        loop = gevent.get_hub().loop
        self._poll = _epoll()
        self._looked_s = 0.0
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._watcher: Any = loop.io(self._poll.fileno(), 1)
        self._timer: Any = loop.timer(PERIOD_S)

    def watch(self, handle: int, callback: Callable[[], None]) -> None:
        """Call back, from within the event loop, whenever this connection can be read."""
        if not self._callbacks:
            self._watcher.stop()
            self._watcher.start(self._look)
        self._callbacks[handle] = callback
        self._poll.register(handle, select.EPOLLIN)

    def forget(self, handle: int) -> None:
        """Do not call back any more; before the connection is closed."""
        if self._callbacks.pop(handle, None) is not None:
            self._poll.unregister(handle)
        if not self._callbacks:
            self._watcher.stop()

    def _look(self) -> None:
        """Serve all that is ready; pause if much comes, else sleep until something is ready."""
        ready = self._poll.poll(0)
        for handle, _ in ready:
            callback = self._callbacks.get(handle)
            if callback is not None:
                callback()
        now_s = perf_counter()
        is_busy = len(ready) > 1 or (bool(ready) and now_s - self._looked_s < PERIOD_S)
        self._looked_s = now_s
        if is_busy:
            self._watcher.stop()
            self._timer.stop()
            self._timer.start(self._look)
        elif self._callbacks and not self._watcher.active:
            self._watcher.start(self._look)


def readiness() -> Readiness:
    """Give the one of this event loop."""
    hub = gevent.get_hub()
    found: Readiness | None = getattr(hub, "k3fleet_readiness", None)
    if found is None:
        found = hub.k3fleet_readiness = Readiness()
    return found
