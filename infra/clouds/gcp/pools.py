"""Declare the node pools of a GKE cluster: the system's, and one per rack."""

from __future__ import annotations

import pulumi
from pulumi_gcp import compute, container, serviceaccount

from fleet.clouds.gcp import SCHEMA, Cluster, Rack
from fleet.region_spec import RackSpec
from infra.clouds.contract import RACK_LABEL
from infra.clouds.gcp.network import Networks
from infra.clouds.gcp.site import Site
from infra.clouds.guarded import guarded
from infra.clouds.names import labels

_NODE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"  # the roles decide, not the scope
# As in Google's blueprint: network cards are handed out by DRA claims.
_NETWORK_LABELS = {
    "cloud.google.com/gke-networking-dra-driver": "true",
    "cloud.google.com/gke-dpv2-unified-cni": "cni-migration",
}
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_POOL_TIMEOUT = pulumi.CustomTimeouts(create="2h", update="2h", delete="1h")  # bare metal boots


def declare_system_pool(
    site: Site, made: container.Cluster, account: serviceaccount.Account
) -> container.NodePool:
    """Declare the pool for everything but engines."""
    nodes = site.cluster.system_nodes
    return container.NodePool(
        f"{site.place.name}-{SCHEMA.system_pool}",
        name=SCHEMA.system_pool,
        cluster=made.id,
        node_locations=[site.cluster.zone],
        version=site.cluster.version,
        node_count=nodes.count,
        management=_management(),
        node_config=container.NodePoolNodeConfigArgs(
            machine_type=nodes.machine_type,
            disk_size_gb=nodes.disk_gib,
            disk_type="hyperdisk-balanced",
            boot_disk_kms_key=site.cluster.disk_key,
            service_account=account.email,
            oauth_scopes=[_NODE_SCOPE],
            resource_labels=labels(site.place.tags),
            # What runs here tolerates nothing, be the machines Arm or not.
            taint_config=_architecture("NONE"),
            workload_metadata_config=_metadata(),
        ),
        network_config=container.NodePoolNetworkConfigArgs(enable_private_nodes=True),
        opts=guarded(container.NodePool, site.provider, ignore=("nodeCount",)),
    )


def declare_rack(
    site: Site,
    made: container.Cluster,
    account: serviceaccount.Account,
    networks: Networks,
    rack: RackSpec,
) -> container.NodePool:
    """Declare one rack: the placement that asks for one NVLink domain, and its pool."""
    assert isinstance(rack.capacity, Rack)  # noqa: S101 - racks of this cloud name theirs
    policy = compute.ResourcePolicy(
        f"{rack.id}-domain",
        name=f"{rack.id}-domain",
        region=site.cluster.region,
        workload_policy=compute.ResourcePolicyWorkloadPolicyArgs(
            type="HIGH_THROUGHPUT", accelerator_topology=site.cluster.topology
        ),
        opts=guarded(compute.ResourcePolicy, site.provider),
    )
    return container.NodePool(
        rack.id,
        name=rack.id,
        cluster=made.id,
        node_locations=[site.cluster.zone],
        version=site.cluster.version,
        node_count=site.place.nodes_per_rack,
        management=_management(),
        upgrade_settings=_one_by_one(),
        placement_policy=container.NodePoolPlacementPolicyArgs(
            type="COMPACT", policy_name=policy.name
        ),
        node_config=_rack_nodes(site, account, rack, rack.capacity),
        network_config=container.NodePoolNetworkConfigArgs(
            enable_private_nodes=True, additional_node_network_configs=_cards(networks)
        ),
        opts=guarded(
            container.NodePool, site.provider, ignore=("nodeCount",), timeouts=_POOL_TIMEOUT
        ),
    )


def _one_by_one() -> container.NodePoolUpgradeSettingsArgs:
    # A rack has no nineteenth node to start before another one goes.
    return container.NodePoolUpgradeSettingsArgs(strategy="SURGE", max_surge=0, max_unavailable=1)


def _rack_nodes(
    site: Site, account: serviceaccount.Account, rack: RackSpec, capacity: Rack
) -> container.NodePoolNodeConfigArgs:
    cluster = site.cluster
    ssds = container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs
    driver = container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs
    return container.NodePoolNodeConfigArgs(
        machine_type=cluster.machine_type,
        guest_accelerators=[
            container.NodePoolNodeConfigGuestAcceleratorArgs(
                type=cluster.accelerator,
                count=site.place.gpus_per_node,
                gpu_driver_installation_config=driver(gpu_driver_version=cluster.driver),
            )
        ],
        reservation_affinity=container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="SPECIFIC_RESERVATION",
            key=_RESERVATION_KEY,
            values=[capacity.path],
        ),
        disk_size_gb=capacity.disk_gib,
        disk_type="hyperdisk-balanced",
        boot_disk_kms_key=cluster.disk_key,
        ephemeral_storage_local_ssd_config=(
            ssds(local_ssd_count=cluster.local_ssds) if cluster.local_ssds else None
        ),
        labels={RACK_LABEL: rack.id, **_NETWORK_LABELS, **_plugin_labels(cluster)},
        taints=[
            container.NodePoolNodeConfigTaintArgs(
                key="nvidia.com/gpu", value="present", effect="NO_SCHEDULE"
            )
        ],
        taint_config=_architecture("ARM"),  # kubernetes.io/arch=arm64:NoSchedule
        service_account=account.email,
        oauth_scopes=[_NODE_SCOPE],
        resource_labels=labels(site.place.rack_tags(rack)),
        workload_metadata_config=_metadata(),
    )


def _cards(
    networks: Networks,
) -> list[container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs]:
    card = container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs
    return [
        card(network=networks.second.name, subnetwork=networks.second_nodes.name),
        # A RoCE network for bare metal makes its one subnet, of this name, by itself.
        card(
            network=networks.roce.name,
            subnetwork=networks.roce.name.apply(lambda name: f"default-subnet-1-{name}"),
        ),
    ]


def _management() -> container.NodePoolManagementArgs:
    # A pool of a release channel must have upgrades on; the cluster's hold keeps them back.
    return container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True)


def _plugin_labels(cluster: Cluster) -> dict[str, str]:
    """Keep Google's device plugin off the nodes where another one is to run."""
    off = {"gke-no-default-nvidia-gpu-device-plugin": "true"}
    return {} if cluster.google_device_plugin else off


def _architecture(behavior: str) -> container.NodePoolNodeConfigTaintConfigArgs:
    return container.NodePoolNodeConfigTaintConfigArgs(architecture_taint_behavior=behavior)


def _metadata() -> container.NodePoolNodeConfigWorkloadMetadataConfigArgs:
    return container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode="GKE_METADATA")
