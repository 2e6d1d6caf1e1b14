"""Hold a region for one driver: a Lease in its cluster, which every operator sees.

Whoever drives renews it. It is free when it was given back, when its holder was a process of this
machine that is gone, or when nobody has renewed it for its whole length: that is watched for a
while, and not read off two clocks that may differ.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fleet.errors import ApplyError, BusyError, FleetError
from infra.rollout.objects import ChangedError, Object, Objects

NAME = "k3fleet-rollout"
PROCESS = "k3fleet.io/process"  # annotation: enough to find that it is gone
# An API server may be away for half a minute (an upgrade, a new etcd leader).
LENGTH_S = 60.0
RENEW_S = 5.0
WATCH_S = 3 * RENEW_S  # a holder that lives has renewed at least once in it
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who wants to drive."""

    name: str  # for people: who@host/pid and the rollout
    process: str  # for machines
    is_gone: Callable[[str], bool]  # says of another process of this machine that it has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """A clock that goes on, the time of the day, and a way to let time pass."""

    clock: Callable[[], float]
    now: Callable[[], datetime]
    pause: Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a region's lease says; no holder: it is free."""

    region: str
    holder: str
    process: str
    since: str
    renewed: str
    age_s: float  # of the last renewal, by our clock

    @property
    def expired(self) -> bool:
        """Whether its holder has not renewed it in time, if our clock is right."""
        return self.age_s > LENGTH_S

    @property
    def ahead(self) -> bool:
        """Whether it was renewed in the future: one of two clocks is wrong, so neither tells."""
        return self.age_s < -RENEW_S


def read_lease(objects: Objects, now: datetime) -> Seen | None:
    """Read a region's lease; None where nobody holds it."""
    seen = _seen(objects.get("Lease", NAME), objects.region, now)
    return seen if seen and seen.holder else None


class RegionLease:
    """The lease of one region, as one driver has it or wants it."""

    def __init__(self, objects: Objects, me: Holder, time: Time) -> None:
        self.region = objects.region
        self._objects, self._me, self._time = objects, me, time
        self._own: Object | None = None  # as we wrote it last
        self._renewed_s = 0.0
        self._taken_by = ""
        self._lock = threading.Lock()

    def acquire(self, *, take_over: bool = False) -> str:
        """Get it, or raise BusyError with who has it; say from whom it was taken, if from one."""
        with self._lock:
            found = self._objects.get("Lease", NAME)
            seen = _seen(found, self.region, self._time.now())
            why = self._free(seen, take_over=take_over)
            if why is None and seen is not None:
                raise BusyError(_busy(seen))
            self._write(found, new_holder=True)
            return why or ""

    def renew(self) -> None:
        """Say that we are still there; what somebody else took is not taken back."""
        with self._lock:
            if self._own is None or self._taken_by:
                return
            try:
                self._write(self._own)
            except BusyError:
                found = self._objects.get("Lease", NAME)
                seen = _seen(found, self.region, self._time.now())
                if seen and seen.process == self._me.process:
                    self._write(found)  # a reply of ours was lost, or a label was added
                else:
                    self._taken_by = (seen.holder if seen else "") or "somebody who has left"

    def require(self) -> None:
        """Raise BusyError when it is lost, and ApplyError when nobody can tell."""
        if self._own is None:
            self.acquire()
        if not self._taken_by and self._time.clock() - self._renewed_s > LENGTH_S / 2:
            self.renew()
        if self._taken_by:
            raise BusyError(
                f"{self.region}: its rollout was taken over by {self._taken_by}. This driver has "
                "stopped before it touched anything more. See `k3fleet rollout status`."
            )

    def release(self) -> None:
        """Give it back, if it is still ours."""
        with self._lock, suppress(BusyError):
            if self._own is not None and not self._taken_by:
                self._write(self._own, free=True)
            self._own = None

    def _free(self, seen: Seen | None, *, take_over: bool) -> str | None:
        """Say why it may be taken; None: it may not."""
        if seen is None or not seen.holder or seen.process == self._me.process:
            return ""
        if self._me.is_gone(seen.process):
            return f"{self.region}: {seen.holder} has ended without giving it back"
        if take_over:
            return f"{self.region}: taken over from {described(seen)}"
        watch_s = WATCH_S if seen.expired else LENGTH_S + WATCH_S if seen.ahead else 0.0
        if watch_s and self._stays_silent(seen, watch_s):
            return f"{self.region}: {described(seen)} renews it no more"
        return None

    def _stays_silent(self, seen: Seen, watch_s: float) -> bool:
        until_s = self._time.clock() + watch_s
        while self._time.clock() < until_s:
            self._time.pause(_LOOK_S)
            now = _seen(self._objects.get("Lease", NAME), self.region, self._time.now())
            if now is None or (now.renewed, now.process) != (seen.renewed, seen.process):
                return False
        return True

    def _write(self, found: Object | None, *, new_holder: bool = False, free: bool = False) -> None:
        began_s = self._time.clock()
        item = _lease(found, "" if free else self._me.name, self._time.now(), anew=new_holder)
        item["metadata"]["annotations"] = {PROCESS: "" if free else self._me.process}
        try:
            self._own = self._objects.write("Lease", item)
        except ChangedError as error:
            raise BusyError(
                f"{self.region}: somebody else took its lease {NAME} just now. "
                "See `k3fleet rollout status`."
            ) from error
        self._renewed_s = began_s


class Leases:
    """The leases of a fleet's regions, kept alive while they are held."""

    def __init__(self, leases: Mapping[str, RegionLease], say: Callable[[str], None]) -> None:
        self._leases = leases
        self._say = say

    @contextmanager
    def held(self, *, take_over: bool = False) -> Iterator[None]:
        """Hold all that can be had; one that another holds is a BusyError, one out of reach not.

        What is out of reach is asked for again before it is touched.
        """
        stop = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(stop,), daemon=True)
        try:
            self._acquire(take_over=take_over)
            keeper.start()
            yield
        finally:
            stop.set()
            if keeper.ident is not None:
                keeper.join(timeout=RENEW_S)
            for lease in self._leases.values():
                with suppress(ApplyError):  # it runs out by itself
                    lease.release()

    def require(self, region: str) -> None:
        """Raise where a region may not be touched by us now."""
        self._leases[region].require()

    def _acquire(self, *, take_over: bool) -> None:
        silent = []
        for lease in self._leases.values():
            try:
                if why := lease.acquire(take_over=take_over):
                    self._say(why)
            except ApplyError as error:
                silent.append(error)
                self._say(str(error))
        if silent and len(silent) == len(self._leases):
            raise silent[0]

    def _keep(self, stop: threading.Event) -> None:
        while not stop.wait(RENEW_S):
            for lease in self._leases.values():
                with suppress(FleetError):  # `require` says it before the next touch
                    lease.renew()


def described(seen: Seen) -> str:
    """Name a holder, and how long ago it was heard of."""
    ago = "in the future (the clocks differ)" if seen.ahead else f"{seen.age_s:.0f} s ago"
    return f"{seen.holder}, since {seen.since}, renewed {ago}"


def _busy(seen: Seen) -> str:
    left = "it seems to be gone" if seen.expired else "it runs"
    return (
        f"{seen.region}: driven by {described(seen)}: {left}. Ask it with `k3fleet rollout pause` "
        "or abort; if you know that it is dead, go on with --take-over."
    )


def _seen(found: Object | None, region: str, now: datetime) -> Seen | None:
    if found is None:
        return None
    spec = found.get("spec") or {}
    renewed = str(spec.get("renewTime") or "")
    return Seen(
        region=region,
        holder=str(spec.get("holderIdentity") or ""),
        process=str((found["metadata"].get("annotations") or {}).get(PROCESS, "")),
        since=str(spec.get("acquireTime") or "").partition(".")[0],
        renewed=renewed,
        age_s=(now - _time(renewed)).total_seconds() if renewed else LENGTH_S + 1,
    )


def _lease(found: Object | None, holder: str, now: datetime, *, anew: bool) -> dict[str, Any]:
    item: dict[str, Any] = (
        copy.deepcopy(dict(found))
        if found
        else {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "k3fleet"}},
        }
    )
    spec = item.setdefault("spec", {})
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec |= {"holderIdentity": holder, "renewTime": time, "leaseDurationSeconds": int(LENGTH_S)}
    if not holder:
        del spec["holderIdentity"]  # an empty one is not allowed
    if anew:
        spec |= {
            "acquireTime": time,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (found is not None),
        }
    return item


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
