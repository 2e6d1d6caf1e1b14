"""Work back from a block's end: when its nodes must be gone, and when their drain has to start.

AWS asks that instances of a P6e UltraServer are ended by the user one hour before the end of
their block. EKS's own scheduled action on a node group comes 40 minutes before the end: too late.
Sources: EC2 user guide, "Capacity Blocks for UltraServers"; EKS user guide, capacity-blocks-mng.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

CLOUDS = frozenset({"aws"})  # whose ends are planned here: others have their own rules, or no end
EMPTY_BEFORE_END = timedelta(minutes=60)
EKS_ACTS_BEFORE_END = timedelta(minutes=40)
# From the group's new size to ended instances: EKS drains a node for up to 15 minutes before it
# lets the group end it (its managed node update behaviour), and ending takes some more.
SCALE_IN = timedelta(minutes=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The last hours of a rack, in their order."""

    drain_at: datetime  # sessions start to leave
    scale_in_at: datetime  # the node group goes to zero
    empty_by: datetime  # AWS's limit for UltraServers
    eks_acts_at: datetime
    ends_at: datetime


def drain_before_end(*, replicas: int, drain_s: float, at_once: int = 1) -> timedelta:
    """Say how long before its end a rack has to begin to drain, `at_once` replicas at a time."""
    rounds = ceil(replicas / at_once)
    return EMPTY_BEFORE_END + SCALE_IN + rounds * timedelta(seconds=drain_s)


def timetable(ends_at: datetime, *, replicas: int, drain_s: float, at_once: int = 1) -> Timetable:
    """Plan a rack's end: its replicas drain `at_once` at a time, each in `drain_s` at most."""
    empty_by = ends_at - EMPTY_BEFORE_END
    return Timetable(
        drain_at=ends_at - drain_before_end(replicas=replicas, drain_s=drain_s, at_once=at_once),
        scale_in_at=empty_by - SCALE_IN,
        empty_by=empty_by,
        eks_acts_at=ends_at - EKS_ACTS_BEFORE_END,
        ends_at=ends_at,
    )
