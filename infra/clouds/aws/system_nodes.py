"""Make the nodes for everything but engines: frontends, gateways, operators, monitoring."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_aws import ec2, eks

from infra.clouds.aws.instance import metadata_by_session, root_disk, tagged
from infra.clouds.aws.network import Network
from infra.clouds.aws.roles import Role
from infra.clouds.aws.site import Site

AMI_TYPE = "AL2023_ARM_64_STANDARD"
POOL_LABEL = "k3fleet.io/pool"


def make_system_nodes(
    site: Site,
    cluster: eks.Cluster,
    network: Network,
    role: Role,
    after: Sequence[pulumi.Resource],
) -> eks.NodeGroup:
    """Make one group over the zones of the control plane."""
    wanted = site.cluster.system_nodes
    template = ec2.LaunchTemplate(
        site.name("system-template"),
        block_device_mappings=[root_disk(wanted.disk_gib, site.cluster.disk_key)],
        metadata_options=metadata_by_session(),
        tag_specifications=tagged({"Name": f"{site.place.name}-system", **site.place.tags}),
        update_default_version=True,
        opts=site.options(ec2.LaunchTemplate),
    )
    return eks.NodeGroup(
        site.name("system-nodes"),
        cluster_name=cluster.name,
        node_group_name="k3fleet_system",  # no rack is called so: rack ids have no underscore
        node_role_arn=role.arn,
        subnet_ids=[network.control_plane[zone] for zone in sorted(network.control_plane)],
        ami_type=AMI_TYPE,
        capacity_type="ON_DEMAND",
        instance_types=[wanted.instance_type],
        labels={POOL_LABEL: "system"},
        launch_template=eks.NodeGroupLaunchTemplateArgs(
            id=template.id, version=template.latest_version.apply(str)
        ),
        scaling_config=eks.NodeGroupScalingConfigArgs(
            min_size=wanted.count, max_size=2 * wanted.count, desired_size=wanted.count
        ),
        update_config=eks.NodeGroupUpdateConfigArgs(max_unavailable=1),
        opts=site.options(
            eks.NodeGroup,
            depends_on=[*role.granted, *network.ways_out, *after],
            ignore=["scalingConfig.desiredSize"],  # an autoscaler may have added some
        ),
    )
