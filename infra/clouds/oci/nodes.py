"""Declare the nodes of an OKE cluster: an ordinary pool, and a GPU memory cluster per rack."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pulumi
from pulumi_oci import containerengine, core

from fleet.clouds.oci import Rack
from fleet.region_spec import RackSpec
from infra.clouds.contract import RACK_LABEL
from infra.clouds.guarded import guarded
from infra.clouds.oci.cloud_init import cloud_init
from infra.clouds.oci.network import Networks
from infra.clouds.oci.site import Site

_GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"
_TIMEOUT = pulumi.CustomTimeouts(create="3h", update="3h", delete="1h")  # bare metal boots
# Agents of an instance that a rack's node needs, as in Oracle's guide.
_AGENTS = (
    "Compute HPC RDMA Auto-Configuration",
    "Compute HPC RDMA Authentication",
    "Compute RDMA GPU Monitoring",
    "Compute Instance Monitoring",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a node needs to join the cluster."""

    host: pulumi.Output[str]
    ca: pulumi.Output[str]


def declare_system_pool(site: Site, made: containerengine.Cluster, networks: Networks) -> None:
    """Declare the pool for everything but engines."""
    nodes, cluster = site.cluster.system_nodes, site.cluster
    containerengine.NodePool(
        f"{site.place.name}-system",
        name="system",
        cluster_id=made.id,
        compartment_id=cluster.compartment,
        kubernetes_version=cluster.version,
        node_shape=nodes.shape,
        node_shape_config=containerengine.NodePoolNodeShapeConfigArgs(
            ocpus=nodes.ocpus, memory_in_gbs=nodes.memory_gib
        ),
        node_source_details=containerengine.NodePoolNodeSourceDetailsArgs(
            source_type="IMAGE", image_id=nodes.image, boot_volume_size_in_gbs=str(nodes.disk_gib)
        ),
        node_config_details=containerengine.NodePoolNodeConfigDetailsArgs(
            size=nodes.count,
            placement_configs=[
                containerengine.NodePoolNodeConfigDetailsPlacementConfigArgs(
                    availability_domain=cluster.availability_domain, subnet_id=networks.nodes.id
                )
            ],
            nsg_ids=[networks.nodes_group.id],
            kms_key_id=cluster.disk_key,
            is_pv_encryption_in_transit_enabled=True,
            node_pool_pod_network_option_details=containerengine.NodePoolNodeConfigDetailsNodePoolPodNetworkOptionDetailsArgs(
                cni_type="FLANNEL_OVERLAY"
            ),
            freeform_tags=site.place.tags,
        ),
        freeform_tags=site.place.tags,
        opts=guarded(containerengine.NodePool, site.provider, ignore=("nodeConfigDetails.size",)),
    )


def declare_rack(
    site: Site, network: core.ComputeCluster, networks: Networks, joining: Joining, rack: RackSpec
) -> core.ComputeGpuMemoryCluster:
    """Declare one rack: what its nodes start as, and the GPU memory cluster on its fabric."""
    assert isinstance(rack.capacity, Rack)  # noqa: S101 - racks of this cloud name theirs
    cluster, tags = site.cluster, site.place.rack_tags(rack)
    instance = core.InstanceConfiguration(
        rack.id,
        compartment_id=cluster.compartment,
        display_name=rack.id,
        instance_details=core.InstanceConfigurationInstanceDetailsArgs(
            instance_type="compute",
            launch_details=_launch(site, networks, joining, rack, rack.capacity),
        ),
        freeform_tags=tags,
        opts=guarded(core.InstanceConfiguration, site.provider),
    )
    return core.ComputeGpuMemoryCluster(
        rack.id,
        availability_domain=cluster.availability_domain,
        compartment_id=cluster.compartment,
        compute_cluster_id=network.id,
        display_name=rack.id,
        gpu_memory_fabric_id=rack.capacity.fabric,
        instance_configuration_id=instance.id,
        size=str(site.place.nodes_per_rack),
        freeform_tags=tags,
        opts=guarded(
            core.ComputeGpuMemoryCluster, site.provider, ignore=("size",), timeouts=_TIMEOUT
        ),
    )


def _launch(
    site: Site, networks: Networks, joining: Joining, rack: RackSpec, capacity: Rack
) -> core.InstanceConfigurationInstanceDetailsLaunchDetailsArgs:
    cluster, tags = site.cluster, site.place.rack_tags(rack)
    details = core.InstanceConfigurationInstanceDetailsLaunchDetailsSourceDetailsArgs
    card = core.InstanceConfigurationInstanceDetailsLaunchDetailsCreateVnicDetailsArgs
    return core.InstanceConfigurationInstanceDetailsLaunchDetailsArgs(
        availability_domain=cluster.availability_domain,
        compartment_id=cluster.compartment,
        shape=cluster.shape,
        source_details=details(
            source_type="image",
            image_id=capacity.image,
            boot_volume_size_in_gbs=str(capacity.disk_gib),
            kms_key_id=cluster.disk_key,
        ),
        create_vnic_details=card(
            subnet_id=networks.nodes.id,
            assign_public_ip=False,
            nsg_ids=[networks.nodes_group.id],
            freeform_tags=tags,
        ),
        metadata={"user_data": _user_data(joining, rack)},
        agent_config=_agents(),
        instance_options=core.InstanceConfigurationInstanceDetailsLaunchDetailsInstanceOptionsArgs(
            are_legacy_imds_endpoints_disabled=True
        ),
        freeform_tags=tags,
    )


def _user_data(joining: Joining, rack: RackSpec) -> pulumi.Output[str]:
    def write(both: list[str]) -> str:
        host, ca = both
        text = cloud_init(host=host, ca=ca, node_labels={RACK_LABEL: rack.id}, taint=_GPU_TAINT)
        return base64.b64encode(text.encode()).decode()

    return pulumi.Output.all(joining.host, joining.ca).apply(write)


def _agents() -> core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigArgs:
    plugin = core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigPluginsConfigArgs
    return core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigArgs(
        is_management_disabled=False,
        is_monitoring_disabled=False,
        plugins_configs=[plugin(name=name, desired_state="ENABLED") for name in _AGENTS],
    )
