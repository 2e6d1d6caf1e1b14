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
    "gcp": frozenset(
        {
            "gcp:container/cluster:Cluster",
            "gcp:compute/network:Network",
            "gcp:compute/subnetwork:Subnetwork",
            "gcp:compute/reservation:Reservation",
            "gcp:compute/futureReservation:FutureReservation",
            "gcp:kms/cryptoKey:CryptoKey",
        }
    ),
    "oci": frozenset(
        {
            "oci:ContainerEngine/cluster:Cluster",
            "oci:Core/vcn:Vcn",
            "oci:Core/subnet:Subnet",
            "oci:Core/computeCluster:ComputeCluster",  # the RDMA network of all racks
            "oci:Core/computeCapacityReservation:ComputeCapacityReservation",
            "oci:Kms/key:Key",
        }
    ),
    "azure": frozenset(
        {
            "azure-native:resources:ResourceGroup",  # everything goes with it
            "azure-native:containerservice:ManagedCluster",
            "azure-native:network:VirtualNetwork",
            "azure-native:network:Subnet",
            "azure-native:compute:CapacityReservationGroup",
            "azure-native:compute:CapacityReservation",
            "azure-native:keyvault:Key",
        }
    ),
    "coreweave": frozenset(
        {
            "coreweave:index/cksCluster:CksCluster",
            "coreweave:index/networkingVpc:NetworkingVpc",
            "coreweave:index/objectStorageBucket:ObjectStorageBucket",
        }
    ),
    "nebius": frozenset(
        {
            "nebius:index/mk8sV1Cluster:Mk8sV1Cluster",
            "nebius:index/vpcV1Network:VpcV1Network",
            "nebius:index/vpcV1Subnet:VpcV1Subnet",
            "nebius:index/computeV1GpuCluster:ComputeV1GpuCluster",
            "nebius:index/kmsV1SymmetricKey:KmsV1SymmetricKey",
        }
    ),
}
# Racks: gone when their block is over, on purpose and one at a time, so that nothing is retained.
RACKS_BY_CLOUD: Mapping[Cloud, frozenset[str]] = {
    "existing": frozenset(),
    "aws": frozenset({"aws:eks/nodeGroup:NodeGroup"}),  # 18 nodes, and the weights on their disks
    "gcp": frozenset({"gcp:container/nodePool:NodePool"}),
    "oci": frozenset(
        {
            "oci:Core/computeGpuMemoryCluster:ComputeGpuMemoryCluster",
            "oci:ContainerEngine/nodePool:NodePool",
        }
    ),
    "azure": frozenset({"azure-native:containerservice:AgentPool"}),
    "coreweave": frozenset({"kubernetes:compute.coreweave.com/v1alpha1:NodePool"}),
    "nebius": frozenset(
        {
            "nebius:index/computeV1NvlInstanceGroup:ComputeV1NvlInstanceGroup",
            "nebius:index/mk8sV1NodeGroup:Mk8sV1NodeGroup",
        }
    ),
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
