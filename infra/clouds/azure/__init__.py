"""Declare an AKS cluster whose racks are agent pools in capacity reservation groups.

That a pool is one NVLink domain cannot be asked for here: Azure's interconnect block,
which is a rack, is taken by virtual machines and by no field of AKS. What there is: a
scale set of this size comes in eighteens. So the cliques are compared after boot, by
`k3fleet racks preflight`, before anything is placed.
"""

from __future__ import annotations

from ipaddress import ip_network

import pulumi_azure_native as azure
from pulumi_azure_native import containerservice, managedidentity, network, resources

from fleet.clouds.azure import Cluster, Rack
from fleet.clouds.promises import Promise, promises_of
from fleet.region_spec import RackSpec
from infra.clouds.azure.identities import Identities, declare_identities
from infra.clouds.azure.network import declare_nodes_subnet
from infra.clouds.azure.site import Site
from infra.clouds.contract import RACK_LABEL, DeclaredCluster, Place
from infra.clouds.guarded import guarded
from infra.clouds.names import plain

_POOL_NAME_MAX = 12  # lower-case letters and digits


class Azure:
    """The program of Azure."""

    promises: tuple[Promise, ...] = promises_of("azure")

    def declare(self, place: Place) -> DeclaredCluster:
        """Declare network and identities, the cluster with its system nodes, a pool per rack."""
        cluster = place.region.cluster
        assert isinstance(cluster, Cluster)  # noqa: S101 - the fleet file was typed by its cloud
        provider = azure.Provider(
            f"azure-{place.region.name}",
            subscription_id=cluster.subscription,
            tenant_id=cluster.tenant,
            location=cluster.location,
        )
        group = resources.ResourceGroup(
            place.name,
            resource_group_name=place.name,
            location=cluster.location,
            tags=place.tags,
            opts=guarded(resources.ResourceGroup, provider),
        )
        site = Site(place=place, cluster=cluster, provider=provider, group=group.name)
        subnet = declare_nodes_subnet(site)
        made = _cluster(site, subnet, declare_identities(site, subnet))
        racks = {rack.id: _rack(site, made, subnet, rack) for rack in place.region.racks}
        return DeclaredCluster(
            cluster_name=made.name,
            endpoint=made.private_fqdn.apply(lambda name: f"https://{name}:443"),
            ca=None,
            racks={name: pool.name for name, pool in racks.items()},
            kubeconfig_command=(
                *("az", "aks", "get-credentials", "--subscription", cluster.subscription),
                *("--resource-group", group.name, "--name", made.name, "--file", "-"),
            ),
        )


def _cluster(
    site: Site, subnet: network.Subnet, identities: Identities
) -> containerservice.ManagedCluster:
    cluster, place = site.cluster, site.place
    return containerservice.ManagedCluster(
        place.name,
        resource_name_=place.name,
        resource_group_name=site.group,
        location=cluster.location,
        dns_prefix=place.name,
        kubernetes_version=cluster.version,
        sku=containerservice.ManagedClusterSKUArgs(name="Base", tier="Standard"),
        identity=containerservice.ManagedClusterIdentityArgs(
            type="UserAssigned", user_assigned_identities=[identities.control_plane.id]
        ),
        identity_profile={"kubeletidentity": _profile(identities.kubelet)},
        api_server_access_profile=_private_access(),
        enable_rbac=True,
        disable_local_accounts=True,
        aad_profile=_people(cluster),
        oidc_issuer_profile=containerservice.ManagedClusterOIDCIssuerProfileArgs(enabled=True),
        security_profile=_security(cluster),
        # Nothing restarts nodes but a person: a rack's weights are on their disks.
        auto_upgrade_profile=containerservice.ManagedClusterAutoUpgradeProfileArgs(
            upgrade_channel="none", node_os_upgrade_channel="None"
        ),
        network_profile=_pods(cluster),
        disk_encryption_set_id=cluster.disk_encryption_set,
        agent_pool_profiles=[_system_pool(site, subnet)],
        tags=place.tags,
        opts=guarded(
            containerservice.ManagedCluster,
            site.provider,
            # Azure gives the racks' pools back in it too.
            ignore=("agentPoolProfiles",),
            after=identities.rights,
        ),
    )


def _profile(
    identity: managedidentity.UserAssignedIdentity,
) -> containerservice.UserAssignedIdentityArgs:
    return containerservice.UserAssignedIdentityArgs(
        resource_id=identity.id, client_id=identity.client_id, object_id=identity.principal_id
    )


def _private_access() -> containerservice.ManagedClusterAPIServerAccessProfileArgs:
    return containerservice.ManagedClusterAPIServerAccessProfileArgs(
        enable_private_cluster=True,
        enable_private_cluster_public_fqdn=False,
        private_dns_zone="system",
        disable_run_command=True,
    )


def _people(cluster: Cluster) -> containerservice.ManagedClusterAADProfileArgs:
    return containerservice.ManagedClusterAADProfileArgs(
        managed=True,
        enable_azure_rbac=False,
        tenant_id=cluster.tenant,
        admin_group_object_ids=sorted(cluster.admin_groups),
    )


def _security(cluster: Cluster) -> containerservice.ManagedClusterSecurityProfileArgs:
    key = cluster.secrets_key
    return containerservice.ManagedClusterSecurityProfileArgs(
        workload_identity=containerservice.ManagedClusterSecurityProfileWorkloadIdentityArgs(
            enabled=True
        ),
        azure_key_vault_kms=(
            containerservice.AzureKeyVaultKmsArgs(
                enabled=True,
                key_id=key.key,
                key_vault_network_access="Private",
                key_vault_resource_id=key.vault,
            )
            if key
            else None
        ),
    )


def _pods(cluster: Cluster) -> containerservice.ContainerServiceNetworkProfileArgs:
    return containerservice.ContainerServiceNetworkProfileArgs(
        network_plugin="azure",
        network_plugin_mode="overlay",
        network_dataplane="cilium",
        network_policy="cilium",
        outbound_type="userAssignedNATGateway",
        pod_cidr=cluster.network.pods,
        service_cidr=cluster.network.services,
        # By custom the tenth address of the services' network.
        dns_service_ip=str(ip_network(cluster.network.services)[10]),
    )


def _system_pool(
    site: Site, subnet: network.Subnet
) -> containerservice.ManagedClusterAgentPoolProfileArgs:
    nodes = site.cluster.system_nodes
    return containerservice.ManagedClusterAgentPoolProfileArgs(
        name="system",
        mode="System",
        type="VirtualMachineScaleSets",
        vm_size=nodes.vm_size,
        count=nodes.count,
        os_type="Linux",
        os_sku="Ubuntu",
        os_disk_size_gb=nodes.disk_gib,
        orchestrator_version=site.cluster.version,
        availability_zones=[site.cluster.zone] if site.cluster.zone else None,
        vnet_subnet_id=subnet.id,
        enable_node_public_ip=False,
        tags=site.place.tags,
    )


def _rack(
    site: Site, made: containerservice.ManagedCluster, subnet: network.Subnet, rack: RackSpec
) -> containerservice.AgentPool:
    assert isinstance(rack.capacity, Rack)  # noqa: S101 - racks of this cloud name theirs
    return containerservice.AgentPool(
        rack.id,
        agent_pool_name=plain(rack.id, _POOL_NAME_MAX),
        resource_group_name=site.group,
        resource_name_=made.name,
        mode="User",
        type="VirtualMachineScaleSets",
        vm_size=site.cluster.vm_size,
        count=site.place.nodes_per_rack,
        enable_auto_scaling=False,
        capacity_reservation_group_id=rack.capacity.reservation_group,
        availability_zones=[site.cluster.zone] if site.cluster.zone else None,
        os_type="Linux",
        os_sku="Ubuntu",
        os_disk_size_gb=rack.capacity.disk_gib,
        orchestrator_version=site.cluster.version,
        vnet_subnet_id=subnet.id,
        enable_node_public_ip=False,
        # The GPU operator brings the driver, and no IMEX service with it.
        gpu_profile=containerservice.GPUProfileArgs(driver="None"),
        # A Grace tray has some 34 NUMA nodes, and the manager's search is exponential in them.
        kubelet_config=containerservice.KubeletConfigArgs(topology_manager_policy="none"),
        # A rack has no nineteenth node to start before another one goes.
        upgrade_settings=containerservice.AgentPoolUpgradeSettingsArgs(
            max_surge="0", max_unavailable="1"
        ),
        node_labels={RACK_LABEL: rack.id},
        node_taints=["nvidia.com/gpu=present:NoSchedule"],
        tags=site.place.rack_tags(rack),
        opts=guarded(containerservice.AgentPool, site.provider, ignore=("count",)),
    )


PROGRAM = Azure()
