"""Hold what clouds say of bought capacity, whichever cloud it is, and what the fleet file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

# EC2's states of a block (DescribeCapacityBlocks); other clouds are mapped to these.
GOOD_STATES = frozenset({"active", "scheduled"})
PENDING_STATES = frozenset({"payment-pending"})
OVER_STATES = frozenset({"expired", "cancelled"})
FAILED_STATES = frozenset({"payment-failed", "failed", "unavailable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a block's machines are."""

    interconnect: str  # ok, impaired, insufficient-data: NVLink between the trays
    total: int
    available: int
    unavailable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some racks that were bought for some time."""

    id: str
    cloud: str
    region: str  # the cloud's own name
    zone: str
    rack_type: str
    reservations: tuple[str, ...]
    state: str
    starts_at: datetime | None
    ends_at: datetime | None
    tags: Mapping[str, str] = field(default_factory=dict)
    health: Health | None = None  # None: the cloud does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the fleet file says of one rack's capacity."""

    fleet_region: str
    rack: str
    cloud: str
    region: str  # the cloud's own name
    reservation: str | None
    ends_at: datetime | None
    replicas: int
