"""Read EC2's capacity blocks and the health of their interconnect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fleet.capacity.blocks import Block, Health
from infra.capacity.aws_access import AwsAccess, given, translated


def read_blocks(access: AwsAccess, region: str) -> list[Block]:
    """List all blocks of the account in a region, without health.

    Tags are compared here and not by the cloud's filter, whose form for tags of blocks is
    not documented well enough to bet money on.
    """
    client = access.asking("ec2", region)
    with translated(f"aws {region}"):
        pages = client.get_paginator("describe_capacity_blocks").paginate()
        raw = [block for page in pages for block in page.get("CapacityBlocks", [])]
    return [block_of(item, region) for item in raw]


def with_health(access: AwsAccess, region: str, blocks: Iterable[Block]) -> list[Block]:
    """Add what EC2 says of the blocks' machines; None stays where it says nothing."""
    client = access.asking("ec2", region)
    with translated(f"aws {region}"):
        pages = client.get_paginator("describe_capacity_block_status").paginate()
        raw = [item for page in pages for item in page.get("CapacityBlockStatuses", [])]
    where = f"aws {region}: health of blocks"
    health = {given(item, "CapacityBlockId", where): _health(item) for item in raw}
    return [replace(block, health=health.get(block.id)) for block in blocks]


def block_of(raw: Mapping[str, Any], region: str) -> Block:
    """Read one block as EC2 gives it."""
    return Block(
        id=raw.get("CapacityBlockId", "?"),
        cloud="aws",
        region=region,
        zone=raw.get("AvailabilityZone", ""),
        rack_type=raw.get("UltraserverType", ""),
        reservations=tuple(raw.get("CapacityReservationIds", ())),
        state=raw.get("State", "unknown"),
        starts_at=raw.get("StartDate"),
        ends_at=raw.get("EndDate"),
        tags={tag.get("Key", ""): tag.get("Value", "") for tag in raw.get("Tags", ())},
    )


def _health(raw: Mapping[str, Any]) -> Health:
    return Health(
        interconnect=raw.get("InterconnectStatus", "insufficient-data"),
        total=raw.get("TotalCapacity", 0),
        available=raw.get("TotalAvailableCapacity", 0),
        unavailable=raw.get("TotalUnavailableCapacity", 0),
    )
