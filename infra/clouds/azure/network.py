"""Declare the virtual network of an AKS cluster, and the one way out of it."""

from __future__ import annotations

from pulumi_azure_native import network

from infra.clouds.azure.site import Site
from infra.clouds.guarded import guarded


def declare_nodes_subnet(site: Site) -> network.Subnet:
    """Declare a subnet that no address of the internet reaches, with NAT outwards."""
    name, cidrs = site.place.name, site.cluster.network
    whole = network.VirtualNetwork(
        name,
        virtual_network_name=name,
        resource_group_name=site.group,
        location=site.cluster.location,
        address_space=network.AddressSpaceArgs(address_prefixes=[cidrs.cidr]),
        tags=site.place.tags,
        opts=guarded(network.VirtualNetwork, site.provider),
    )
    way_out = _way_out(site)
    return network.Subnet(
        f"{name}-nodes",
        subnet_name="nodes",
        resource_group_name=site.group,
        virtual_network_name=whole.name,
        address_prefix=cidrs.nodes,
        default_outbound_access=False,
        nat_gateway=network.SubResourceArgs(id=way_out.id),
        opts=guarded(network.Subnet, site.provider),
    )


def _way_out(site: Site) -> network.NatGateway:
    name = site.place.name
    address = network.PublicIPAddress(
        f"{name}-out",
        public_ip_address_name=f"{name}-out",
        resource_group_name=site.group,
        location=site.cluster.location,
        sku=network.PublicIPAddressSkuArgs(name="Standard"),
        public_ip_allocation_method="Static",
        tags=site.place.tags,
        opts=guarded(network.PublicIPAddress, site.provider),
    )
    return network.NatGateway(
        f"{name}-out",
        nat_gateway_name=f"{name}-out",
        resource_group_name=site.group,
        location=site.cluster.location,
        sku=network.NatGatewaySkuArgs(name="Standard"),
        public_ip_addresses=[network.SubResourceArgs(id=address.id)],
        tags=site.place.tags,
        opts=guarded(network.NatGateway, site.provider),
    )
