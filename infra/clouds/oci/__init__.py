"""Declare an OKE cluster whose racks are GPU memory clusters, one per fabric.

OKE's node pools cannot ask for a fabric, so that a rack's nodes are self-managed:
a GPU memory cluster starts them from an instance configuration, and their cloud-init
joins them, labels them and masks the host's IMEX service. The OKE add-on for NVIDIA
GPUs cannot be turned off from here; docs/clouds.md has the command.
"""

from __future__ import annotations

import pulumi
import pulumi_oci as oci
from pulumi_oci import containerengine, core, identity

from fleet.clouds.oci import Cluster
from fleet.clouds.promises import Promise, promises_of
from infra.clouds.contract import DeclaredCluster, Place
from infra.clouds.guarded import guarded
from infra.clouds.oci.cloud_init import certificate_of
from infra.clouds.oci.network import Networks, declare_networks
from infra.clouds.oci.nodes import Joining, declare_rack, declare_system_pool
from infra.clouds.oci.site import Site


class Oci:
    """The program of Oracle's cloud."""

    promises: tuple[Promise, ...] = promises_of("oci")

    def declare(self, place: Place) -> DeclaredCluster:
        """Declare the VCN, the cluster, its system nodes, and a GPU memory cluster per rack."""
        cluster = place.region.cluster
        assert isinstance(cluster, Cluster)  # noqa: S101 - the fleet file was typed by its cloud
        provider = _provider(f"oci-{place.region.name}", cluster, cluster.region)
        home = (
            provider
            if cluster.home_region == cluster.region
            else _provider(f"oci-{place.region.name}-home", cluster, cluster.home_region)
        )
        site = Site(place=place, cluster=cluster, provider=provider, home=home)
        networks = declare_networks(site)
        made = _cluster(site, networks)
        declare_system_pool(site, made, networks)
        _right_to_join(site)
        joining = _joining(site, made)
        network = _rdma_network(site)
        racks = {
            rack.id: declare_rack(site, network, networks, joining, rack)
            for rack in place.region.racks
        }
        return DeclaredCluster(
            cluster_name=made.name,
            endpoint=joining.host.apply(lambda host: f"https://{host}:6443"),
            ca=joining.ca,
            racks={name: rack.display_name for name, rack in racks.items()},
            kubeconfig_command=(
                *("oci", "ce", "cluster", "create-kubeconfig", "--cluster-id", made.id),
                *("--region", cluster.region, "--kube-endpoint", "PRIVATE_ENDPOINT"),
                *("--token-version", "2.0.0", "--file", "-"),
            ),
        )


def _provider(name: str, cluster: Cluster, region: str) -> oci.Provider:
    return oci.Provider(
        name,
        tenancy_ocid=cluster.tenancy,
        region=region,
        config_file_profile=cluster.profile,
    )


def _cluster(site: Site, networks: Networks) -> containerengine.Cluster:
    cluster, place = site.cluster, site.place
    return containerengine.Cluster(
        place.name,
        name=place.name,
        compartment_id=cluster.compartment,
        kubernetes_version=cluster.version,
        type="ENHANCED_CLUSTER",  # the only kind that self-managed nodes may join
        vcn_id=networks.vcn.id,
        kms_key_id=cluster.secrets_key,
        cluster_pod_network_options=[
            containerengine.ClusterClusterPodNetworkOptionArgs(cni_type="FLANNEL_OVERLAY")
        ],
        endpoint_config=containerengine.ClusterEndpointConfigArgs(
            subnet_id=networks.api.id,
            is_public_ip_enabled=False,
            nsg_ids=[networks.api_group.id],
        ),
        options=containerengine.ClusterOptionsArgs(
            kubernetes_network_config=containerengine.ClusterOptionsKubernetesNetworkConfigArgs(
                pods_cidr=cluster.network.pods, services_cidr=cluster.network.services
            ),
            service_lb_subnet_ids=[networks.nodes.id],
            service_lb_config=containerengine.ClusterOptionsServiceLbConfigArgs(
                freeform_tags=place.tags
            ),
            persistent_volume_config=containerengine.ClusterOptionsPersistentVolumeConfigArgs(
                freeform_tags=place.tags
            ),
        ),
        freeform_tags=place.tags,
        opts=guarded(containerengine.Cluster, site.provider),
    )


def _right_to_join(site: Site) -> None:
    """Let instances of the compartment join clusters of the compartment, and nothing else."""
    name, compartment = site.place.name, site.cluster.compartment
    group = identity.DynamicGroup(
        f"{name}-nodes",
        name=f"{name}-nodes",
        compartment_id=site.cluster.tenancy,
        description=f"Self-managed nodes of {name}",
        matching_rule=f"ALL {{instance.compartment.id = '{compartment}'}}",
        freeform_tags=site.place.tags,
        opts=guarded(identity.DynamicGroup, site.home),
    )
    identity.Policy(
        f"{name}-nodes",
        name=f"{name}-nodes",
        compartment_id=compartment,
        description=f"Lets self-managed nodes join {name}",
        statements=[
            group.name.apply(
                lambda it: (
                    f"Allow dynamic-group {it} to {{CLUSTER_JOIN}} in compartment id {compartment}"
                )
            )
        ],
        freeform_tags=site.place.tags,
        opts=guarded(identity.Policy, site.home),
    )


def _joining(site: Site, made: containerengine.Cluster) -> Joining:
    """Read what a node needs to join: the kubeconfig, which holds no credentials, has the CA."""
    kubeconfig = containerengine.get_cluster_kube_config_output(
        cluster_id=made.id,
        endpoint="PRIVATE_ENDPOINT",
        token_version="2.0.0",  # noqa: S106 - the version of a format
        opts=pulumi.InvokeOptions(provider=site.provider),
    )
    return Joining(
        host=made.endpoints.apply(lambda them: str(them[0].private_endpoint).partition(":")[0]),
        ca=kubeconfig.content.apply(certificate_of),
    )


def _rdma_network(site: Site) -> core.ComputeCluster:
    return core.ComputeCluster(
        site.place.name,
        availability_domain=site.cluster.availability_domain,
        compartment_id=site.cluster.compartment,
        display_name=site.place.name,
        freeform_tags=site.place.tags,
        opts=guarded(core.ComputeCluster, site.provider),
    )


PROGRAM = Oci()
