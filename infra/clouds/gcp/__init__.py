"""Declare a GKE cluster whose racks are A4X Max, one node pool per rack.

A rack's pool is placed by a workload policy that asks for one NVLink domain of 72
GPUs, in the block or sub-block of a reservation that the fleet file names.
"""

from __future__ import annotations

import pulumi_gcp as gcp
from pulumi_gcp import container, projects, serviceaccount

from fleet.clouds.gcp import Cluster
from fleet.clouds.promises import Promise, promises_of
from infra.clouds.contract import DeclaredCluster, Place
from infra.clouds.gcp.network import Networks, declare_networks
from infra.clouds.gcp.pools import declare_rack, declare_system_pool
from infra.clouds.gcp.site import Site
from infra.clouds.guarded import guarded
from infra.clouds.names import fitted, labels

_CLUSTER_NAME_MAX = 40
_ACCOUNT_NAME_MAX = 30
# Pulls images, writes logs and metrics; nothing else. Workloads have identities of their own.
_NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")


class Gcp:
    """The program of Google Cloud."""

    promises: tuple[Promise, ...] = promises_of("gcp")

    def declare(self, place: Place) -> DeclaredCluster:
        """Declare networks, the cluster, its system nodes, and a pool per rack."""
        cluster = place.region.cluster
        assert isinstance(cluster, Cluster)  # noqa: S101 - the fleet file was typed by its cloud
        provider = gcp.Provider(
            f"gcp-{place.region.name}",
            project=cluster.project,
            region=cluster.region,
            zone=cluster.zone,
            default_labels=labels(place.tags),
        )
        site = Site(place=place, cluster=cluster, provider=provider)
        networks = declare_networks(site)
        account = _node_account(site)
        made = _cluster(site, networks, account)
        declare_system_pool(site, made, account)
        racks = {
            rack.id: declare_rack(site, made, account, networks, rack)
            for rack in place.region.racks
        }
        return DeclaredCluster(
            cluster_name=made.name,
            endpoint=made.private_cluster_config.apply(lambda it: f"https://{it.private_endpoint}"),
            ca=made.master_auth.cluster_ca_certificate,
            racks={name: pool.name for name, pool in racks.items()},
            kubeconfig_command=(
                *("gcloud", "container", "clusters", "get-credentials", made.name),
                *("--project", cluster.project, "--location", cluster.region, "--internal-ip"),
            ),
        )


def _node_account(site: Site) -> serviceaccount.Account:
    account = serviceaccount.Account(
        f"{site.place.name}-nodes",
        account_id=fitted(f"{site.place.name}-nodes", _ACCOUNT_NAME_MAX),
        display_name=f"Nodes of {site.place.name}",
        opts=guarded(serviceaccount.Account, site.provider),
    )
    for role in _NODE_ROLES:
        projects.IAMMember(
            f"{site.place.name}-nodes-{role.rpartition('.')[2]}",
            project=site.cluster.project,
            role=role,
            member=account.email.apply(lambda email: f"serviceAccount:{email}"),
            opts=guarded(projects.IAMMember, site.provider),
        )
    return account


def _cluster(site: Site, networks: Networks, account: serviceaccount.Account) -> container.Cluster:
    cluster, place = site.cluster, site.place
    key = cluster.secrets_key
    return container.Cluster(
        place.name,
        name=fitted(place.name, _CLUSTER_NAME_MAX),
        location=cluster.region,
        node_locations=[cluster.zone],
        min_master_version=cluster.version,
        release_channel=container.ClusterReleaseChannelArgs(channel="REGULAR"),
        maintenance_policy=_maintenance(cluster),
        deletion_protection=True,
        network=networks.main.id,
        subnetwork=networks.nodes.id,
        ip_allocation_policy=container.ClusterIpAllocationPolicyArgs(
            cluster_secondary_range_name="pods", services_secondary_range_name="services"
        ),
        datapath_provider="ADVANCED_DATAPATH",
        enable_multi_networking=True,
        enable_shielded_nodes=False,  # bare metal has none, and the choice is the whole cluster's
        private_cluster_config=_privacy(cluster),
        master_authorized_networks_config=_callers(cluster),
        workload_identity_config=container.ClusterWorkloadIdentityConfigArgs(
            workload_pool=f"{cluster.project}.svc.id.goog"
        ),
        database_encryption=container.ClusterDatabaseEncryptionArgs(
            state="ENCRYPTED" if key else "DECRYPTED", key_name=key
        ),
        # The pool that GKE insists on; it is gone as soon as the cluster is there.
        remove_default_node_pool=True,
        initial_node_count=1,
        node_config=container.ClusterNodeConfigArgs(service_account=account.email),
        resource_labels=labels(place.tags),
        opts=guarded(container.Cluster, site.provider, ignore=("nodeConfig", "initialNodeCount")),
    )


def _maintenance(cluster: Cluster) -> container.ClusterMaintenancePolicyArgs:
    """Hold back what restarts nodes: a rack's weights are on their disks."""
    return container.ClusterMaintenancePolicyArgs(
        # A hold needs a window; patches of the control plane come in it.
        daily_maintenance_window=container.ClusterMaintenancePolicyDailyMaintenanceWindowArgs(
            start_time="03:00"
        ),
        maintenance_exclusions=[
            container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
                exclusion_name="no-minor-or-node-upgrades",
                start_time=cluster.hold_upgrades_from,
                exclusion_options=container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
                    scope="NO_MINOR_OR_NODE_UPGRADES", end_time_behavior="UNTIL_END_OF_SUPPORT"
                ),
            )
        ],
    )


def _privacy(cluster: Cluster) -> container.ClusterPrivateClusterConfigArgs:
    return container.ClusterPrivateClusterConfigArgs(
        enable_private_nodes=True,
        enable_private_endpoint=True,
        master_ipv4_cidr_block=cluster.network.control_plane,
    )


def _callers(cluster: Cluster) -> container.ClusterMasterAuthorizedNetworksConfigArgs:
    block = container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs
    return container.ClusterMasterAuthorizedNetworksConfigArgs(
        cidr_blocks=[block(cidr_block=cidr) for cidr in sorted(cluster.allow_from)],
        gcp_public_cidrs_access_enabled=False,
    )


PROGRAM = Gcp()
