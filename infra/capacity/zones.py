"""See which zones an account may use, and how much it may buy there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.capacity.aws_access import AwsAccess, given, translated

OPTED_OUT = "not-opted-in"
# Quotas of capacity blocks are told by name: their codes are not documented.
_QUOTA_WORDS = ("capacity block", "ultraserver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A zone, and whether the account may use it."""

    name: str
    group: str
    kind: str  # availability-zone, local-zone
    status: str  # opt-in-not-required, opted-in, not-opted-in


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What an account may have at the same time; value None: AWS does not say."""

    region: str
    name: str
    value: float | None


def read_zones(access: AwsAccess, region: str) -> dict[str, Zone]:
    """List all zones of a region by name, those without opt-in too."""
    with translated(f"aws {region}"):
        answer = access.asking("ec2", region).describe_availability_zones(AllAvailabilityZones=True)
    zones = [_zone(raw, region) for raw in answer.get("AvailabilityZones", [])]
    return {zone.name: zone for zone in zones}


def _zone(raw: dict[str, Any], region: str) -> Zone:
    name = given(raw, "ZoneName", f"aws {region}: zones")
    return Zone(
        name=name,
        group=raw.get("GroupName") or name,
        kind=raw.get("ZoneType") or "availability-zone",
        status=raw.get("OptInStatus") or "unknown",
    )


def opt_in(access: AwsAccess, region: str, group: str) -> None:
    """Opt the account in to a zone group; it cannot be taken back without AWS's support."""
    with translated(f"aws {region}"):
        access.asking("ec2", region).modify_availability_zone_group(
            GroupName=group, OptInStatus="opted-in"
        )


def read_quotas(access: AwsAccess, region: str) -> list[Quota]:
    """Find the quotas that limit capacity blocks, by their names; none found is told as unknown."""
    client = access.asking("service-quotas", region)
    with translated(f"aws {region} quotas"):
        pages = client.get_paginator("list_service_quotas").paginate(ServiceCode="ec2")
        raw = [quota for page in pages for quota in page.get("Quotas", [])]
    found = [_quota(item, region) for item in raw if _limits_blocks(item)]
    return found or [Quota(region=region, name="capacity blocks", value=None)]


def _limits_blocks(raw: dict[str, Any]) -> bool:
    name = str(raw.get("QuotaName", "")).lower()
    return any(word in name for word in _QUOTA_WORDS)


def _quota(raw: dict[str, Any], region: str) -> Quota:
    return Quota(region=region, name=str(raw["QuotaName"]), value=raw.get("Value"))
