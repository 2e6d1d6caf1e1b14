"""Ask AWS which capacity block, and so which UltraServer, each node of a cluster is in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from fleet.racks.seen import NodeSeen
from infra.bootstrap.calls import connect, explained

REGION_LABEL = "topology.kubernetes.io/region"
AT_ONCE = 100  # instance ids in one DescribeInstanceTopology
# CapacityBlockId may be null right after launch (the SDK's text): about a minute is waited.
WAITS_S = (2.0, 4.0, 8.0, 16.0, 32.0)
_PROVIDER_ID = re.compile(r"aws:///[a-z0-9-]+/(i-[0-9a-f]{8,17})")


def instance_of(node: NodeSeen) -> str | None:
    """Give the instance that a node is; None where it is none of AWS."""
    found = _PROVIDER_ID.fullmatch(node.provider_id)
    return None if found is None else found[1]


def ask_aws(
    nodes: Collection[NodeSeen], pause: Callable[[float], None]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Map nodes to capacity blocks, and those to reservations; no node of AWS, no question."""
    if not any(instance_of(node) for node in nodes):
        return {}, {}
    aws = connect(None)

    def client(region: str) -> Any:
        return aws.client("ec2", region)

    blocks = capacity_blocks(nodes, client, pause)
    names: dict[str, set[str]] = {}
    for node in nodes:
        if node.name in blocks:
            names.setdefault(node.labels[REGION_LABEL], set()).add(blocks[node.name])
    aliases: dict[str, tuple[str, ...]] = {}
    for region, own in names.items():
        aliases |= reservations(own, client(region))
    return blocks, aliases


def capacity_blocks(
    nodes: Collection[NodeSeen],
    client: Callable[[str], Any],
    pause: Callable[[float], None],
) -> dict[str, str]:
    """Map nodes to their capacity block; those of which AWS says nothing are left out.

    `client` gives boto3's EC2 client of a region.
    """
    found: dict[str, str] = {}
    regions: dict[str, dict[str, str]] = {}
    for node in nodes:
        if instance := instance_of(node):
            region = node.labels.get(REGION_LABEL, "")
            regions.setdefault(region, {})[instance] = node.name
    for region, names in regions.items():
        if region:
            blocks = _blocks(client(region), list(names), pause)
            found |= {names[instance]: block for instance, block in blocks.items()}
    return found


def reservations(blocks: Iterable[str], client: Any) -> Mapping[str, tuple[str, ...]]:
    """Map capacity blocks to their reservations, which the fleet file names."""
    wanted = sorted(set(blocks))
    found: dict[str, tuple[str, ...]] = {}
    with explained("EC2 capacity blocks"):
        pages = client.get_paginator("describe_capacity_blocks").paginate(CapacityBlockIds=wanted)
        for page in pages:
            for block in page["CapacityBlocks"]:
                ids = block.get("CapacityReservationIds", ())
                found[str(block["CapacityBlockId"])] = tuple(map(str, ids))
    return found


def _blocks(client: Any, instances: list[str], pause: Callable[[float], None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for wait_s in (*WAITS_S, None):
        left = [instance for instance in instances if instance not in found]
        found |= dict(_ask(client, left))
        if len(found) == len(instances) or wait_s is None:
            break
        pause(wait_s)
    return found


def _ask(client: Any, instances: list[str]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(instances), AT_ONCE):
        with explained("EC2 instance topology"):
            ids = instances[start : start + AT_ONCE]
            answer = client.describe_instance_topology(InstanceIds=ids)
        for item in answer["Instances"]:
            if block := item.get("CapacityBlockId"):
                yield str(item["InstanceId"]), str(block)
