"""Declare a Nebius cluster whose racks are NVLink instance groups, a node group each.

The SDK is a community's, generated from Nebius's Terraform provider: at run time Pulumi
needs its `terraform-provider` plugin, which fetches that provider from Terraform's
registry. Missing in it: a key of one's own for Secrets or disks, and deletion
protection. Nothing in it was ever run against Nebius from here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nebius as nebius
import yaml

from fleet.clouds.nebius import SCHEMA, Cluster, Rack
from fleet.clouds.promises import Promise, promises_of
from fleet.region_spec import RackSpec
from infra.clouds.contract import RACK_LABEL, DeclaredCluster, Place
from infra.clouds.guarded import guarded
from infra.clouds.names import labels

# Afterwards Nebius deletes the pods that a disruption budget holds; its own default is ten minutes,
# less than an engine's sessions take to end.
_DRAIN = "1h"
_TIMEOUT = pulumi.CustomTimeouts(create="2h", update="2h", delete="1h")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """What all resources of one region share."""

    place: Place
    cluster: Cluster
    provider: nebius.Provider


class Nebius:
    """The program of Nebius."""

    promises: tuple[Promise, ...] = promises_of("nebius")

    def declare(self, place: Place) -> DeclaredCluster:
        """Declare the network, the cluster, its system nodes, and a node group per rack."""
        cluster = place.region.cluster
        assert isinstance(cluster, Cluster)  # noqa: S101 - the fleet file was typed by its cloud
        provider = nebius.Provider(
            f"nebius-{place.region.name}",
            parent_id=cluster.project,
            profile=nebius.ProviderProfileArgs(name=cluster.profile) if cluster.profile else None,
            default_labels=labels(place.tags),
        )
        site = _Site(place=place, cluster=cluster, provider=provider)
        subnet = _subnet(site)
        made = _cluster(site, subnet)
        _system_group(site, made, subnet)
        fabric = nebius.ComputeV1GpuCluster(
            place.name,
            name=place.name,
            parent_id=cluster.project,
            infiniband_fabric=cluster.fabric,
            opts=guarded(nebius.ComputeV1GpuCluster, provider),
        )
        racks = {rack.id: _rack(site, made, subnet, fabric, rack) for rack in place.region.racks}
        control_plane = made.status.control_plane
        return DeclaredCluster(
            cluster_name=made.name,
            endpoint=control_plane.endpoints.private_endpoint,
            ca=control_plane.auth.cluster_ca_certificate,
            racks={name: group.name for name, group in racks.items()},
            kubeconfig_command=(
                *("nebius", "mk8s", "cluster", "get-credentials", "--id", made.id, "--internal"),
            ),
        )


def _subnet(site: _Site) -> nebius.VpcV1Subnet:
    network = nebius.VpcV1Network(
        site.place.name,
        name=site.place.name,
        parent_id=site.cluster.project,
        opts=guarded(nebius.VpcV1Network, site.provider),
    )
    cidr = site.cluster.nodes
    pool = nebius.VpcV1SubnetIpv4PrivatePoolsPoolArgs
    block = nebius.VpcV1SubnetIpv4PrivatePoolsPoolCidrArgs
    return nebius.VpcV1Subnet(
        f"{site.place.name}-nodes",
        name=f"{site.place.name}-nodes",
        parent_id=site.cluster.project,
        network_id=network.id,
        ipv4_private_pools=nebius.VpcV1SubnetIpv4PrivatePoolsArgs(
            use_network_pools=cidr is None,
            pools=[pool(cidrs=[block(cidr=cidr)])] if cidr else None,
        ),
        opts=guarded(nebius.VpcV1Subnet, site.provider),
    )


def _cluster(site: _Site, subnet: nebius.VpcV1Subnet) -> nebius.Mk8sV1Cluster:
    return nebius.Mk8sV1Cluster(
        site.place.name,
        name=site.place.name,
        parent_id=site.cluster.project,
        control_plane=nebius.Mk8sV1ClusterControlPlaneArgs(
            subnet_id=subnet.id,
            version=site.place.kubernetes,
            etcd_cluster_size=3,
            endpoints=nebius.Mk8sV1ClusterControlPlaneEndpointsArgs(),  # a private one only
            audit_logs=nebius.Mk8sV1ClusterControlPlaneAuditLogsArgs(),
        ),
        kube_network=nebius.Mk8sV1ClusterKubeNetworkArgs(service_cidrs=[site.cluster.services]),
        opts=guarded(nebius.Mk8sV1Cluster, site.provider),
    )


def _system_group(
    site: _Site, made: nebius.Mk8sV1Cluster, subnet: nebius.VpcV1Subnet
) -> nebius.Mk8sV1NodeGroup:
    nodes = site.cluster.system_nodes
    return nebius.Mk8sV1NodeGroup(
        f"{site.place.name}-{SCHEMA.system_pool}",
        name=SCHEMA.system_pool,
        parent_id=made.id,
        version=site.place.kubernetes,
        fixed_node_count=nodes.count,
        template=nebius.Mk8sV1NodeGroupTemplateArgs(
            resources=nebius.Mk8sV1NodeGroupTemplateResourcesArgs(
                platform=nodes.platform, preset=nodes.preset
            ),
            boot_disk=_disk(nodes.disk_gib),
            network_interfaces=[_card(subnet)],
            instance_metadata=nebius.Mk8sV1NodeGroupTemplateInstanceMetadataArgs(
                labels=labels(site.place.tags)
            ),
        ),
        opts=guarded(nebius.Mk8sV1NodeGroup, site.provider, ignore=("fixedNodeCount",)),
    )


def _rack(
    site: _Site,
    made: nebius.Mk8sV1Cluster,
    subnet: nebius.VpcV1Subnet,
    fabric: nebius.ComputeV1GpuCluster,
    rack: RackSpec,
) -> nebius.Mk8sV1NodeGroup:
    """Declare one rack: the group that is one NVLink domain, and its nodes."""
    assert isinstance(rack.capacity, Rack)  # noqa: S101 - racks of this cloud name theirs
    tags = labels(site.place.rack_tags(rack))
    domain = nebius.ComputeV1NvlInstanceGroup(
        rack.id,
        name=rack.id,
        parent_id=site.cluster.project,
        type="GB300",
        size=site.place.nodes_per_rack,
        labels=tags,
        opts=guarded(nebius.ComputeV1NvlInstanceGroup, site.provider),
    )
    template = _template(site, rack, rack.capacity)
    template.nvlink = nebius.Mk8sV1NodeGroupTemplateNvlinkArgs(nvl_instance_group_id=domain.id)
    template.gpu_cluster = nebius.Mk8sV1NodeGroupTemplateGpuClusterArgs(id=fabric.id)
    template.network_interfaces = [_card(subnet)]
    return nebius.Mk8sV1NodeGroup(
        rack.id,
        name=rack.id,
        parent_id=made.id,
        version=site.place.kubernetes,
        fixed_node_count=site.place.nodes_per_rack,
        strategy=_one_by_one(),
        template=template,
        labels=tags,
        opts=guarded(
            nebius.Mk8sV1NodeGroup, site.provider, ignore=("fixedNodeCount",), timeouts=_TIMEOUT
        ),
    )


def _one_by_one() -> nebius.Mk8sV1NodeGroupStrategyArgs:
    # A rack has no nineteenth node to start before another one goes.
    return nebius.Mk8sV1NodeGroupStrategyArgs(
        max_surge=nebius.Mk8sV1NodeGroupStrategyMaxSurgeArgs(count=0),
        max_unavailable=nebius.Mk8sV1NodeGroupStrategyMaxUnavailableArgs(count=1),
        drain_timeout=_DRAIN,
    )


def _template(site: _Site, rack: RackSpec, capacity: Rack) -> nebius.Mk8sV1NodeGroupTemplateArgs:
    cluster = site.cluster
    return nebius.Mk8sV1NodeGroupTemplateArgs(
        resources=nebius.Mk8sV1NodeGroupTemplateResourcesArgs(
            platform=cluster.platform, preset=cluster.preset
        ),
        reservation_policy=nebius.Mk8sV1NodeGroupTemplateReservationPolicyArgs(
            policy="STRICT", reservation_ids=[capacity.reservation]
        ),
        gpu_settings=nebius.Mk8sV1NodeGroupTemplateGpuSettingsArgs(
            drivers_preset=cluster.drivers_preset, dra=cluster.managed_dra
        ),
        boot_disk=_disk(capacity.disk_gib),
        local_disks=nebius.Mk8sV1NodeGroupTemplateLocalDisksArgs(
            passthrough_group=nebius.Mk8sV1NodeGroupTemplateLocalDisksPassthroughGroupArgs(
                requested=True
            ),
            config=nebius.Mk8sV1NodeGroupTemplateLocalDisksConfigArgs(kubelet_ephemeral=True),
        ),
        metadata=nebius.Mk8sV1NodeGroupTemplateMetadataArgs(labels={RACK_LABEL: rack.id}),
        instance_metadata=nebius.Mk8sV1NodeGroupTemplateInstanceMetadataArgs(
            labels=labels(site.place.rack_tags(rack))
        ),
        taints=[
            nebius.Mk8sV1NodeGroupTemplateTaintArgs(
                key="nvidia.com/gpu", value="present", effect="NO_SCHEDULE"
            )
        ],
        cloud_init_user_data=_cloud_init(cluster.ssh_key),
    )


def _disk(gib: int) -> nebius.Mk8sV1NodeGroupTemplateBootDiskArgs:
    return nebius.Mk8sV1NodeGroupTemplateBootDiskArgs(
        type="NETWORK_SSD",
        size_gibibytes=gib,
        disk_encryption=nebius.Mk8sV1NodeGroupTemplateBootDiskDiskEncryptionArgs(
            type="DISK_ENCRYPTION_MANAGED"
        ),
    )


def _card(subnet: nebius.VpcV1Subnet) -> nebius.Mk8sV1NodeGroupTemplateNetworkInterfaceArgs:
    return nebius.Mk8sV1NodeGroupTemplateNetworkInterfaceArgs(subnet_id=subnet.id)


def _cloud_init(ssh_key: str | None) -> str:
    # The DRA driver starts IMEX itself, per domain, and cannot beside the host's.
    document: dict[str, object] = {
        "runcmd": [["systemctl", "mask", "--now", "nvidia-imex.service"]]
    }
    if ssh_key:
        document["ssh_authorized_keys"] = [ssh_key]
    return "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False, width=1_000_000)


PROGRAM = Nebius()
