"""Move the sessions of a region to the others, by what its gateways are told.

All that is remembered is in the cluster: the ConfigMap with the weights. So a move that was killed
goes on where it is with the same command, and may be turned round at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleet.errors import ApplyError
from fleet.rollout.strategy import Floor
from fleet.rollout.waves import serving_at_least
from fleet.traffic_shift import TOTAL_WEIGHT, Shift
from infra.gateway import TRAFFIC_KEY, TRAFFIC_MAP
from infra.rollout.checks import listed
from infra.rollout.objects import Objects
from infra.rollout.waiting import Waiter

# Keys of Envoy's runtime: a prefix, and the names of the two clusters in `envoy.yaml.j2`.
_ELSEWHERE, _HERE = f"{TRAFFIC_KEY}.elsewhere", f"{TRAFFIC_KEY}.frontends"
# Receivers that lost replicas get some time to find them again, then people decide.
PATIENCE_S = 300.0


def weights(weight: int) -> Mapping[str, str]:
    """Give the files of Envoy's runtime that send a part of the sessions elsewhere."""
    return {_ELSEWHERE: str(weight), _HERE: str(TOTAL_WEIGHT - weight)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTraffic:
    """The part of a region's sessions that is sent elsewhere."""

    objects: Objects

    def weight(self) -> int:
        """Read the part, of TOTAL_WEIGHT."""
        item = self.objects.get("ConfigMap", TRAFFIC_MAP) or {}
        text = (item.get("data") or {}).get(_ELSEWHERE, "0")
        if not text.isdigit() or int(text) > TOTAL_WEIGHT:
            raise ApplyError(
                f"{self.objects.region}: ConfigMap {TRAFFIC_MAP} says {text!r}, which is no part "
                "of the sessions. Remove it: then none is sent elsewhere."
            )
        return int(text)

    def send(self, weight: int) -> None:
        """Write the part; gateways take it within about a minute and a half."""
        item = self.objects.get("ConfigMap", TRAFFIC_MAP) or _empty()
        self.objects.write("ConfigMap", {**item, "data": dict(weights(weight))})


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
