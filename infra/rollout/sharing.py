"""Move sessions between two sets of releases, as their replicas come into service and leave it.

The share of a set at the gateways is that of its replicas among all that serve. It moves before a
replica is drained, so that its sessions go to where capacity is, and after a new one has answered.
Gateways hear of it within the time that a kubelet takes; so where a set gets its first sessions,
or is about to lose its last replica, that time is waited for. Told twice, nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.session_shares import Shares, never_less, shares_of
from fleet.traffic_shift import TOTAL_WEIGHT
from infra.gateway import cluster_of
from infra.rollout.part import Part
from infra.rollout.waiting import Waiting

_HELD = Waiting("held", "")


def strewn(part: Part) -> str:
    """Say where shares must not move now: sessions would go to other regions and come back."""
    if not part.apart or part.region.traffic.weight() in (0, TOTAL_WEIGHT):
        return ""
    return (
        "a part of its sessions is in other regions, and would move once more. Bring it back by "
        "`k3fleet traffic restore`, or send all by `k3fleet traffic drain`, then resume"
    )


def leave(part: Part) -> Waiting:
    """Take sessions away from what the step's replicas leave behind, before they are drained.

    The set that the step leads to gets a share of none, if it has none yet: so that gateways know
    it before they know its frontends.
    """
    if not part.apart:
        return _HELD
    shares = _share(part, part.region.serving_sets(without=part.replicas))
    routed = part.region.serving() & set(part.replicas)
    leaving = {cluster_of(p.set) for p in part.region.leaders() if p.replica in routed}
    if all(shares.get(name) for name in leaving):
        return _HELD
    return _heard(part, "gateways may still send sessions to a set that leaves")


def come(part: Part) -> Waiting:
    """Give the step's replicas their share, once they have answered and are in routing."""
    if not part.apart:
        return _HELD
    target = cluster_of(part.target_set)
    if not part.region.traffic.shares().get(target):
        waited = _heard(part, "gateways may not know the frontends of the new set yet")
        if waited.how == "stopped":
            return waited
    _share(part, part.region.serving_sets())
    return _HELD


def retreat(part: Part) -> None:
    """Send sessions back at once from replicas that failed; those of a set without any other go
    to the other set as soon as gateways see that its frontends have no worker.
    """
    if part.apart and (shares := shares_of(part.region.serving_sets(without=part.replicas))):
        part.hold()
        part.region.traffic.share(shares)


def _share(part: Part, serving: Mapping[str, int]) -> Shares:
    """Write the shares of what serves; give them as they are now."""
    traffic, target = part.region.traffic, cluster_of(part.target_set)
    before = {target: 0, **traffic.shares()}
    wanted = shares_of({**dict.fromkeys(before, 0), **serving}) or before
    shares = never_less(wanted, before, target)
    part.hold()
    traffic.share(shares)
    return shares


def _heard(part: Part, why: str) -> Waiting:
    waited = part.waiter.until(lambda: why, part.region.cluster.heard_s)
    return waited if waited.how == "stopped" else _HELD
