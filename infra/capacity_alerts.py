"""Count down to the end of the racks' capacity blocks, which the fleet file names.

One rule looks at all racks of a region and gives each a series of its own, so that an
alert says which rack it is about, and a rack more is a term more.
"""

from __future__ import annotations

from datetime import timedelta

from fleet.capacity.deadlines import drain_before_end
from fleet.load import Fleet
from fleet.plan import RegionPlan
from infra.alert import Alert

# Extensions are sold out days ahead, and a rack of weights takes hours to stage elsewhere.
NOTICE = timedelta(days=3)
TO_WAKE_UP = timedelta(minutes=30)

_SUMMARY = "The capacity of rack {{ $labels.rack }} ends in {{ $value | humanizeDuration }}"


def capacity_alerts(fleet: Fleet, region: RegionPlan) -> list[Alert]:
    """Write the two alerts of a region; none where no rack has an end."""
    left = _seconds_left(fleet, region.name)
    if left is None:
        return []
    return [
        Alert(
            name="K3CapacityEnds",
            expression=f"{left} < {NOTICE.total_seconds():.0f}",
            lasts="0s",
            severity="warning",
            summary=_SUMMARY,
            description="Its nodes go away with all that runs on them. Extend the block or lease "
            "and write the new capacity_ends_at into the fleet file, or buy another rack and stage "
            "its weights while this one still serves.",
        ),
        Alert(
            name="K3CapacityEndsNow",
            expression=f"{left} < {_last_call(fleet, region).total_seconds():.0f}",
            lasts="0s",
            severity="critical",
            summary=_SUMMARY,
            description="Drain its replicas now: UltraServers must be empty an hour before the end "
            "of their block, and what still runs then is cut off. Then take the rack out of the "
            "fleet file.",
        ),
    ]


def _last_call(fleet: Fleet, region: RegionPlan) -> timedelta:
    """Say when the fullest rack of a region has to begin to drain, and somebody to wake up."""
    most = max(rack.replicas for rack in region.racks)
    return TO_WAKE_UP + drain_before_end(replicas=most, drain_s=fleet.release.drain_s)


def _seconds_left(fleet: Fleet, region: str) -> str | None:
    """Write the expression with one series per rack that has an end."""
    racks = [rack for there in fleet.spec.regions if there.name == region for rack in there.racks]
    ends = {
        rack.id: round(rack.capacity_ends_at.timestamp())
        for rack in racks
        if rack.capacity_ends_at is not None
    }
    if not ends:
        return None
    series = (
        f'label_replace(vector({end}), "rack", "{rack}", "", "")'
        for rack, end in sorted(ends.items())
    )
    return f"({' or '.join(series)}) - time()"
