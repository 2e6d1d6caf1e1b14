"""Name the cloud resources whose loss takes running replicas or bought capacity along.

Declared with `protect`; the diff guard of `k3fleet up` and the policy pack refuse
to replace or delete them. One line per cloud and kind of loss.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from fleet.clouds import Cloud

# Kept in the cloud even when they are taken out of the state: nobody can make them again.
RETAINED_BY_CLOUD: Mapping[Cloud, frozenset[str]] = {
    "existing": frozenset(),
    "aws": frozenset(
        {
            "aws:eks/cluster:Cluster",
            "aws:ec2/vpc:Vpc",
            "aws:ec2/subnet:Subnet",
            "aws:kms/key:Key",  # what it encrypts cannot be read again
            "aws:kms/replicaKey:ReplicaKey",
            "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
            "aws:s3/bucket:Bucket",
        }
    ),
}
# Racks: gone when their block is over, on purpose and one at a time, so that nothing is retained.
RACKS_BY_CLOUD: Mapping[Cloud, frozenset[str]] = {
    "existing": frozenset(),
    "aws": frozenset({"aws:eks/nodeGroup:NodeGroup"}),  # 18 nodes, and the weights on their disks
}

RETAINED_TYPES: frozenset[str] = frozenset().union(*RETAINED_BY_CLOUD.values())
PROTECTED_TYPES: frozenset[str] = RETAINED_TYPES.union(*RACKS_BY_CLOUD.values())


def kept(type_token: str, options: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """Add the protection that a type has to the options of a resource."""
    return pulumi.ResourceOptions.merge(
        options,
        pulumi.ResourceOptions(
            protect=type_token in PROTECTED_TYPES or None,
            retain_on_delete=type_token in RETAINED_TYPES or None,
        ),
    )
