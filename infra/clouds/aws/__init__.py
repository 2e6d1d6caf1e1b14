"""Make an EKS cluster with a node group per UltraServer.

Written from AWS's guides and the SDK's types; nothing here has met an AWS
account. What AWS does not promise is in `Eks.promises`. Not established, and
therefore data: the GB300's network cards (`fleet/clouds/aws_cards.yaml`) and the zones
that sell it (the fleet file). Known to bite: EKS does not check that 18 nodes
join; it scales a group down 40 minutes before its block ends, while EC2 wants
UltraServer instances gone by 60; and it asks for a desired size of 0 before a
group of a block gets a new AMI.
"""

from __future__ import annotations

from fleet.clouds.aws import Cluster
from fleet.clouds.promises import Promise, promises_of
from infra.clouds.aws.addons import install_for_nodes, install_others
from infra.clouds.aws.control_plane import make_cluster
from infra.clouds.aws.network import network_of
from infra.clouds.aws.rack import RackSite, make_fabric_group, make_rack
from infra.clouds.aws.roles import node_role
from infra.clouds.aws.site import Site, make_provider
from infra.clouds.aws.system_nodes import make_system_nodes
from infra.clouds.contract import DeclaredCluster, Place


class Eks:
    """The program of AWS."""

    promises: tuple[Promise, ...] = promises_of("aws")

    def declare(self, place: Place) -> DeclaredCluster:
        """Declare the network, the control plane, the system nodes and the racks."""
        wanted = place.region.cluster
        assert isinstance(wanted, Cluster)  # noqa: S101 - typed by the cloud
        site = Site(place=place, cluster=wanted, provider=make_provider(place, wanted))
        network = network_of(site)
        cluster = make_cluster(site, network)
        role = node_role(site)
        ready = install_for_nodes(site, cluster)
        system = make_system_nodes(site, cluster, network, role, ready)
        install_others(site, cluster, [system])
        racks = RackSite(
            site=site,
            cluster=cluster,
            network=network,
            role=role,
            fabric=make_fabric_group(site, network),
            after=ready,
        )
        groups = {rack.id: make_rack(racks, rack) for rack in place.region.racks}
        return DeclaredCluster(
            cluster_name=cluster.name,
            endpoint=cluster.endpoint,
            ca=cluster.certificate_authority.apply(lambda authority: authority.data),
            racks={rack: group.node_group_name for rack, group in groups.items()},
            kubeconfig_command=(
                *("aws", "eks", "update-kubeconfig"),
                *("--name", place.name, "--region", wanted.region, "--alias", place.name),
            ),
        )


PROGRAM = Eks()
