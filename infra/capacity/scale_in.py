"""Write the end of a rack into its node group's schedule, before EKS's own action there.

EKS ends the nodes of a capacity block 40 minutes before its end; UltraServers must be empty 60
minutes before. Only the size is set: sessions must have left by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.capacity.deadlines import Timetable
from fleet.capacity.order import TAG_FLEET, TAG_RACK
from fleet.errors import CloudError
from infra.capacity.aws_access import AwsAccess, translated

ACTION = "k3fleet-empty-before-block-ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class RackGroup:
    """The Auto Scaling group behind a rack's node group."""

    region: str
    cluster: str
    node_group: str
    group: str


def find_group(access: AwsAccess, region: str, fleet: str, rack: str) -> RackGroup:
    """Find a rack's group by the tags of its EKS node group; raise CloudError when it has none."""
    eks = access.asking("eks", region)
    with translated(f"aws {region} eks"):
        for cluster in _all(eks, "list_clusters", "clusters"):
            for name in _all(eks, "list_nodegroups", "nodegroups", clusterName=cluster):
                node_group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)
                if not _is_of(node_group["nodegroup"], fleet, rack):
                    continue
                groups = node_group["nodegroup"].get("resources", {}).get("autoScalingGroups", [])
                if groups:
                    return RackGroup(
                        region=region, cluster=cluster, node_group=name, group=groups[0]["name"]
                    )
    raise CloudError(
        f"aws {region}: no EKS node group has the tags {TAG_FLEET}={fleet} and {TAG_RACK}={rack}. "
        "Provision the rack first (k3fleet up), or tag its node group."
    )


def schedule(access: AwsAccess, group: RackGroup, times: Timetable) -> None:
    """Set the group to zero nodes at `scale_in_at`; writing it again moves the time."""
    with translated(f"aws {group.region} autoscaling"):
        access.asking("autoscaling", group.region).put_scheduled_update_group_action(
            AutoScalingGroupName=group.group,
            ScheduledActionName=ACTION,
            StartTime=times.scale_in_at,
            MinSize=0,
            DesiredCapacity=0,
        )


def _all(client: Any, operation: str, key: str, **asked: str) -> list[str]:
    pages = client.get_paginator(operation).paginate(**asked)
    return [name for page in pages for name in page[key]]


def _is_of(node_group: dict[str, Any], fleet: str, rack: str) -> bool:
    tags = node_group.get("tags", {})
    return bool(tags.get(TAG_FLEET) == fleet and tags.get(TAG_RACK) == rack)
