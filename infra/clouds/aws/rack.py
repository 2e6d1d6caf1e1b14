"""Make one rack: a launch template and a node group for one capacity block.

A managed node group per rack, because a template targets one reservation, and a
reservation is one UltraServer. `pulumi_eks` cannot build such a group (no
AL2023_ARM_64_NVIDIA, its own layout of network cards, no market options). The
EKS guide names managed node groups among what works in Local Zones; older copies
of that page say the opposite.

Names start with `rack.`, and no region's name has a dot: the two never meet.

Labels and taint are given to EKS and not to the node: there they change in place,
while a change of user data starts all 18 nodes anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, eks

from fleet.clouds.aws import Rack
from fleet.clouds.aws_cards import cards_of
from fleet.region_spec import RackSpec
from infra.clouds.aws.instance import metadata_by_session, root_disk, tagged, user_data
from infra.clouds.aws.network import Network
from infra.clouds.aws.roles import Role
from infra.clouds.aws.site import Site
from infra.clouds.contract import RACK_LABEL

# Driver, fabric manager and IMEX are in it; the DRA driver and the device plugin are not.
AMI_TYPE = "AL2023_ARM_64_NVIDIA"
# EKS rejects a group for a block without either of them.
MARKET_TYPE = "capacity-block"
CAPACITY_TYPE = "CAPACITY_BLOCK"
# Not formatted by default. Mounted at /mnt/k8s-disks/0.
RAID0 = {"instance": {"localStorage": {"strategy": "RAID0"}}}
# Nodes are given back before new ones are asked for: the block has none to spare.
_UPDATE = {"update_strategy": "MINIMAL", "max_unavailable": 2}  # 2: one replica's nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class RackSite:
    """What the racks of a region share."""

    site: Site
    cluster: eks.Cluster
    network: Network
    role: Role
    fabric: ec2.SecurityGroup  # what EFA interfaces belong to
    after: Sequence[pulumi.Resource]  # what nodes need to become ready


def make_rack(racks: RackSite, rack: RackSpec) -> eks.NodeGroup:
    """Make the node group of a rack, in the one subnet of its block's zone."""
    site, capacity = racks.site, rack.capacity
    assert isinstance(capacity, Rack)  # noqa: S101 - typed by the cloud, and checked to be there
    template = _template(racks, rack, capacity)
    options = site.options(
        eks.NodeGroup,
        depends_on=[*racks.role.granted, *racks.network.ways_out, *racks.after],
        # The block's end and drains decide how many nodes there are.
        ignore=["scalingConfig.desiredSize"],
    )
    return eks.NodeGroup(
        f"rack.{rack.id}",
        cluster_name=racks.cluster.name,
        node_group_name=rack.id,
        node_role_arn=racks.role.arn,
        subnet_ids=[racks.network.nodes[capacity.zone]],
        ami_type=AMI_TYPE,
        # No version: an upgrade of the control plane must not roll racks. The AMI's says it.
        release_version=capacity.ami_release,
        capacity_type=CAPACITY_TYPE,
        labels={RACK_LABEL: rack.id},
        taints=[eks.NodeGroupTaintArgs(key="nvidia.com/gpu", value="true", effect="NO_SCHEDULE")],
        launch_template=eks.NodeGroupLaunchTemplateArgs(
            id=template.id, version=template.latest_version.apply(str)
        ),
        scaling_config=eks.NodeGroupScalingConfigArgs(
            min_size=0, max_size=site.place.nodes_per_rack, desired_size=capacity.initial_nodes
        ),
        update_config=eks.NodeGroupUpdateConfigArgs(**_UPDATE),
        tags=site.place.rack_tags(rack),
        opts=pulumi.ResourceOptions.merge(
            options,
            pulumi.ResourceOptions(
                delete_before_replace=True,  # one block cannot carry two groups
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="180m", delete="60m"),
            ),
        ),
    )


def make_fabric_group(site: Site, network: Network) -> ec2.SecurityGroup:
    """Make the security group of EFA: all traffic among its members, in and out, as EFA asks."""
    return ec2.SecurityGroup(
        site.name("fabric"),
        # AWS refuses group names that begin with `sg-`, as a region in Singapore's might.
        name_prefix=f"k3fleet-{site.place.name}-",
        description=f"EFA among the racks of {site.place.name}",
        vpc_id=network.vpc_id,
        ingress=[ec2.SecurityGroupIngressArgs(protocol="-1", from_port=0, to_port=0, self=True)],
        egress=[ec2.SecurityGroupEgressArgs(protocol="-1", from_port=0, to_port=0, self=True)],
        tags={"Name": f"{site.place.name}-fabric"},
        opts=site.options(ec2.SecurityGroup),
    )


def _template(racks: RackSite, rack: RackSpec, capacity: Rack) -> ec2.LaunchTemplate:
    site = racks.site
    tags = {"Name": f"{site.place.name}-{rack.id}", **site.place.rack_tags(rack)}
    return ec2.LaunchTemplate(
        f"rack.{rack.id}",
        instance_type=capacity.instance_type,
        instance_market_options=ec2.LaunchTemplateInstanceMarketOptionsArgs(
            market_type=MARKET_TYPE
        ),
        capacity_reservation_specification=ec2.LaunchTemplateCapacityReservationSpecificationArgs(
            capacity_reservation_target=(
                ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
                    capacity_reservation_id=capacity.reservation
                )
            )
        ),
        network_interfaces=_interfaces(racks, capacity.instance_type),
        block_device_mappings=[root_disk(capacity.disk_gib)],
        metadata_options=metadata_by_session(),
        user_data=user_data(RAID0),
        tag_specifications=tagged(tags),
        tags=tags,
        update_default_version=True,
        opts=site.options(ec2.LaunchTemplate),
    )


def _interfaces(
    racks: RackSite, instance_type: str
) -> list[ec2.LaunchTemplateNetworkInterfaceArgs]:
    """Put the pods' network on card 0, and EFA alone on the cards of the table."""
    # The cluster's own group, which system nodes have too: by it engines and what they need
    # (DNS, frontends, operators) reach each other on every port. A template with interfaces
    # has to name it, or EKS would not put nodes into it.
    shared = racks.cluster.vpc_config.apply(lambda config: config.cluster_security_group_id)
    first = ec2.LaunchTemplateNetworkInterfaceArgs(
        network_card_index=0,
        device_index=0,
        interface_type="interface",
        security_groups=[shared, racks.fabric.id],
        delete_on_termination="true",
    )
    others = [
        ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=card,
            device_index=0,
            interface_type="efa-only",
            security_groups=[shared, racks.fabric.id],
            delete_on_termination="true",
        )
        for card in cards_of(instance_type).efa_cards
    ]
    return [first, *others]
