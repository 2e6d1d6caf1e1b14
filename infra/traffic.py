"""Move the sessions of a region, to the others or among its sets, by what its gateways are told.

All that is remembered is in the cluster: the ConfigMap with the weights. So a move that was killed
goes on where it is with the same command, and may be turned round at any moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from fleet.errors import ApplyError
from fleet.rollout.strategy import Floor
from fleet.rollout.waves import serving_at_least
from fleet.session_shares import Shares, beside
from fleet.traffic_shift import TOTAL_WEIGHT, Shift
from infra.gateway import (
    ELSEWHERE,
    SESSIONS_KEY,
    SETS_ANNOTATION,
    SETS_MAP,
    SHARES_KEY,
    TRAFFIC_MAP,
)
from infra.rollout.checks import listed
from infra.rollout.objects import ChangedError, Objects
from infra.rollout.waiting import Waiter

_WEIGHT = re.compile(r"[0-9]{1,9}")
_TRIES = 5  # of a write between which somebody else wrote
_ELSEWHERE = f"{SESSIONS_KEY}.{ELSEWHERE}"
# Receivers that lost replicas get some time to find them again, then people decide.
PATIENCE_S = 300.0


def settings(shares: Shares, elsewhere: int) -> Mapping[str, str]:
    """Give the files of Envoy's runtime: what goes elsewhere, and what to each set's cluster.

    Two keys for each cluster: of the sessions of clients, and of those that stay in the region,
    which is also the share that the next who writes reads.
    """
    kept = {f"{SHARES_KEY}.{name}": share for name, share in shares.items()}
    weights = {f"{SESSIONS_KEY}.{n}": weight for n, weight in beside(shares, elsewhere).items()}
    found = {_ELSEWHERE: elsewhere, **kept, **weights}
    return {key: str(weight) for key, weight in sorted(found.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTraffic:
    """Where the sessions of a region's clients go: elsewhere, or to which set of releases."""

    objects: Objects

    def weight(self) -> int:
        """Read the part that goes elsewhere, of TOTAL_WEIGHT."""
        return self._part(_ELSEWHERE)

    def shares(self) -> Shares:
        """Read the share of each set that the gateways know, by its cluster; all is TOTAL_WEIGHT.

        What was written for other sets is over: those that are left share it.
        """
        first, *others = self._clusters()
        found = {name: self._part(f"{SHARES_KEY}.{name}") for name in others}
        return {first: max(TOTAL_WEIGHT - sum(found.values()), 0), **found}

    def send(self, weight: int) -> None:
        """Write the part that goes elsewhere; gateways take it within a minute and a half."""
        self._write(self.shares(), weight)

    def share(self, shares: Shares) -> None:
        """Write the shares of the sets, by their clusters, beside what goes elsewhere."""
        self._write(shares, self.weight())

    def _write(self, shares: Shares, elsewhere: int) -> None:
        data = dict(settings(shares, elsewhere))
        for _ in range(_TRIES):
            item = self.objects.get("ConfigMap", TRAFFIC_MAP) or _empty()
            if item.get("data") == data:
                return
            with suppress(ChangedError):  # a label, or the same by a process that has died
                self.objects.write("ConfigMap", {**item, "data": data})
                return
        raise ApplyError(
            f"{self.objects.region}: somebody else goes on writing ConfigMap {TRAFFIC_MAP}. See "
            "who it is, then give the same command again."
        )

    def _clusters(self) -> list[str]:
        """Name the clusters that gateways have; the first gets what nobody else does."""
        item = self.objects.get("ConfigMap", SETS_MAP) or {}
        annotations = item.get("metadata", {}).get("annotations") or {}
        if found := annotations.get(SETS_ANNOTATION, "").split():
            return list(found)
        raise ApplyError(
            f"{self.objects.region}: ConfigMap {SETS_MAP} is missing, or does not say which sets "
            "of releases serve. Bring the serving layer up with this k3fleet first: k3fleet up."
        )

    def _part(self, key: str) -> int:
        item = self.objects.get("ConfigMap", TRAFFIC_MAP) or {}
        text = (item.get("data") or {}).get(key, "0")
        if not _WEIGHT.fullmatch(text) or int(text) > TOTAL_WEIGHT:
            raise ApplyError(
                f"{self.objects.region}: ConfigMap {TRAFFIC_MAP} says {text!r}, which is no part "
                "of the sessions. Remove it: then none is sent elsewhere."
            )
        return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A region that gets sessions: how many replicas it has, and how many serve now."""

    name: str
    replicas: int
    serving: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """Go through a shift, as long as those who receive are well."""

    traffic: RegionTraffic
    receivers: tuple[Receiver, ...]
    floor: Floor
    waiter: Waiter
    say: Callable[[str], None]
    require_held: Callable[[str], None] = lambda _region: None

    def move(self, shift: Shift, *, paced: bool = True) -> None:
        """Send slice after slice; raise ApplyError where too few receivers serve for too long."""
        for part in shift.slices if paced else shift.slices[-1:]:
            if paced:
                self._require_well()
            self.require_held(self.traffic.objects.region)
            self.traffic.send(part.weight)
            self.say(
                f"{part.weight / TOTAL_WEIGHT:.0%} of the sessions go elsewhere; "
                f"{part.sessions} moved, {part.prefill_tokens / 1e6:.1f} M tokens to compute"
            )
            if paced:
                self._pause(part.pause_s)

    def _require_well(self) -> None:
        waited = self.waiter.until(self._weak, PATIENCE_S)
        if waited.how != "held":
            raise ApplyError(
                f"{waited.missing}. No more sessions were moved. See to it, then give the same "
                "command again; or turn it round."
            )

    def _weak(self) -> str:
        parts = []
        for receiver in self.receivers:
            serving, wanted = (
                receiver.serving(),
                serving_at_least(receiver.replicas, self.floor.region),
            )
            if serving < wanted:
                parts.append(
                    f"{receiver.name}: {serving} of {receiver.replicas} replicas serve, the floor "
                    f"is {wanted}"
                )
        return listed(parts)

    def _pause(self, seconds: float) -> None:
        self.waiter.until(lambda: "sessions are on their way", seconds)


def _empty() -> Mapping[str, object]:
    labels = {"app.kubernetes.io/name": "gateway", "app.kubernetes.io/part-of": "k3fleet"}
    metadata = {"name": TRAFFIC_MAP, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
