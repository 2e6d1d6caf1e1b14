"""Let one process at a time write into a region's folder: an object that says who.

It is made only where there is none, and renewed and taken over only as the object that was read
(If-None-Match, If-Match): of two who try at once, the store lets one. Its age is told by the
store's own clocks; where those cannot be right (no date, or one in the future: stores of several
machines), it is watched for as long as a dead one would keep it. No clock of ours has a say.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from fleet.errors import BusyError, FleetError
from infra.rollout.lease import Holder, Time
from infra.weights.store import Small, Store
from infra.weights.store_errors import ChangedError

LOCK = "k3fleet-sync.lock"
# A store may be away for a minute; a killed holder of this machine is noticed at once.
LENGTH_S = 180.0
RENEW_S = 20.0
WATCH_S = 5.0  # between two looks at a lock whose age is not known
_RISKY_S = LENGTH_S - 2 * RENEW_S
_MAX_BYTES = 4096


class BucketLock:
    """The lock of one folder, as one process has it or wants it."""

    def __init__(
        self, store: Store, me: Holder, time: Time, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._store, self._me, self._time, self._say = store, me, time, say
        self._key = store.key(LOCK)
        self._tag = ""
        self._lost = ""
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it, or raise BusyError with who does; renew it until the block ends."""
        self._acquire()
        stop = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(stop,), daemon=True)
        keeper.start()
        try:
            yield
        finally:
            stop.set()
            keeper.join()
            with suppress(FleetError):  # it runs out by itself
                self._release()

    def require(self) -> None:
        """Raise BusyError when somebody else took it: nothing more may be written."""
        if self._lost:
            raise BusyError(
                f"{self._store.place}: its lock {LOCK} was taken over, or may be: {self._lost} "
                "Nothing more was written. See who, then run it again."
            )

    def _acquire(self) -> None:
        found = self._found()
        if found is not None and not self._is_free(found):
            heard = f"{max(found.age_s or 0, 0):.0f} s ago"
            raise BusyError(
                f"{self._store.place}: {_holder(found)[0]} works on it, heard of {heard}. "
                f"Wait for it; a dead one's lock is free after {LENGTH_S:.0f} s."
            )
        try:
            self._tag = self._write("" if found is None else found.etag)
        except ChangedError as error:
            raise BusyError(
                f"{self._store.place}: somebody else took its lock {LOCK} just now. "
                "Wait for it, then run it again."
            ) from error

    def _is_free(self, found: Small) -> bool:
        _, process = _holder(found)
        if process == self._me.process or self._me.is_gone(process):
            return True
        return found.age_s is not None and found.age_s > LENGTH_S

    def _found(self) -> Small | None:
        """Read the lock, and watch it where its age is not known."""
        found = self._store.small(self._key, _MAX_BYTES)
        if found is None or self._is_free(found):
            return found
        if found.age_s is not None and found.age_s > -RENEW_S:
            return found
        self._say(
            f"{self._store.place}: the age of its lock {LOCK} cannot be told by its date; watching "
            f"for {LENGTH_S:.0f} s whether {_holder(found)[0]} renews it"
        )
        until_s = self._time.clock() + LENGTH_S
        while self._time.clock() < until_s:
            self._time.pause(WATCH_S)
            now = self._store.small(self._key, _MAX_BYTES)
            if now is None or now.etag != found.etag:
                return now
        return replace(found, age_s=math.inf)

    def _write(self, only: str) -> str:
        content = {
            "holder": self._me.name,
            "process": self._me.process,
            "renewed": self._time.now().isoformat(),  # makes each writing another object
        }
        return self._store.put(self._key, json.dumps(content).encode(), only=only)

    def _keep(self, stop: threading.Event) -> None:
        renewed_s = self._time.clock()
        while not stop.wait(RENEW_S):
            try:
                self._renew()
                renewed_s = self._time.clock()
            except FleetError as error:
                # Longer than that without an answer, and somebody else may have it by now.
                if isinstance(error, ChangedError) or self._time.clock() - renewed_s > _RISKY_S:
                    self._lost = str(error)
                    return

    def _renew(self) -> None:
        with self._lock:
            try:
                self._tag = self._write(self._tag)
            except ChangedError:
                found = self._store.small(self._key, _MAX_BYTES)
                if found is None or _holder(found)[1] != self._me.process:
                    raise
                self._tag = found.etag  # the answer to a renewal of ours was lost

    def _release(self) -> None:
        with self._lock:
            found = self._store.small(self._key, _MAX_BYTES)
            if found is not None and found.etag == self._tag:
                self._store.delete(self._key)


def _holder(found: Small) -> tuple[str, str]:
    """Read who holds it: for people, and for machines."""
    try:
        content = json.loads(found.content)
        return ascii(str(content["holder"])[:100])[1:-1], str(content["process"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "somebody", ""
