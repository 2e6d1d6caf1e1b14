"""Declare the VCN of an OKE cluster: private subnets, and who may talk to whom."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_oci import core

from infra.clouds.guarded import guarded
from infra.clouds.oci.site import Site

_ALL = "all"
_TCP = "6"  # IANA's protocol number, which is how OCI names protocols
_ICMP = "1"
_API_PORT = 6443
_API_NODES_PORT = 12_250  # nodes tell the control plane about themselves
_ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """Where the API server and the nodes are."""

    vcn: core.Vcn
    api: core.Subnet
    nodes: core.Subnet
    api_group: core.NetworkSecurityGroup
    nodes_group: core.NetworkSecurityGroup


def declare_networks(site: Site) -> Networks:
    """Declare the VCN with its two private subnets and their security groups."""
    network = site.cluster.network
    vcn = core.Vcn(
        site.place.name,
        compartment_id=site.cluster.compartment,
        cidr_blocks=[network.cidr],
        display_name=site.place.name,
        freeform_tags=site.place.tags,
        opts=guarded(core.Vcn, site.provider),
    )
    routes = _routes(site, vcn)
    # In place of the VCN's own list, which lets SSH in from anywhere.
    quiet = core.SecurityList(
        f"{site.place.name}-quiet",
        compartment_id=site.cluster.compartment,
        vcn_id=vcn.id,
        display_name=f"{site.place.name}-quiet",
        ingress_security_rules=[
            core.SecurityListIngressSecurityRuleArgs(
                protocol=_ICMP,
                source=_ANYWHERE,
                description="path MTU discovery",
                icmp_options=core.SecurityListIngressSecurityRuleIcmpOptionsArgs(type=3, code=4),
            )
        ],
        freeform_tags=site.place.tags,
        opts=guarded(core.SecurityList, site.provider),
    )
    api_group, nodes_group = (_group(site, vcn, part) for part in ("api", "nodes"))
    _rules(site, api_group, nodes_group)
    return Networks(
        vcn=vcn,
        api=_subnet(site, vcn, "api", network.api, (routes, quiet)),
        nodes=_subnet(site, vcn, "nodes", network.nodes, (routes, quiet)),
        api_group=api_group,
        nodes_group=nodes_group,
    )


def _subnet(
    site: Site,
    vcn: core.Vcn,
    part: str,
    cidr: str,
    rules: tuple[core.RouteTable, core.SecurityList],
) -> core.Subnet:
    routes, quiet = rules
    return core.Subnet(
        f"{site.place.name}-{part}",
        compartment_id=site.cluster.compartment,
        vcn_id=vcn.id,
        cidr_block=cidr,
        display_name=f"{site.place.name}-{part}",
        prohibit_public_ip_on_vnic=True,
        prohibit_internet_ingress=True,
        route_table_id=routes.id,
        security_list_ids=[quiet.id],
        freeform_tags=site.place.tags,
        opts=guarded(core.Subnet, site.provider),
    )


def _routes(site: Site, vcn: core.Vcn) -> core.RouteTable:
    """Declare the ways out: to Oracle's own services, and through NAT to everything else."""
    name, compartment = site.place.name, site.cluster.compartment
    services = core.get_services_output(
        filters=[
            core.GetServicesFilterArgs(
                name="name", values=["All .* Services In Oracle Services Network"], regex=True
            )
        ],
        opts=pulumi.InvokeOptions(provider=site.provider),
    ).services
    nat = _nat(site, vcn)
    gateway = core.ServiceGateway(
        f"{name}-services",
        compartment_id=compartment,
        vcn_id=vcn.id,
        display_name=f"{name}-services",
        services=[core.ServiceGatewayServiceArgs(service_id=services[0].id)],
        freeform_tags=site.place.tags,
        opts=guarded(core.ServiceGateway, site.provider),
    )
    return core.RouteTable(
        f"{name}-private",
        compartment_id=compartment,
        vcn_id=vcn.id,
        display_name=f"{name}-private",
        route_rules=[
            core.RouteTableRouteRuleArgs(
                network_entity_id=nat.id, destination=_ANYWHERE, destination_type="CIDR_BLOCK"
            ),
            core.RouteTableRouteRuleArgs(
                network_entity_id=gateway.id,
                destination=services[0].cidr_block,
                destination_type="SERVICE_CIDR_BLOCK",
            ),
        ],
        freeform_tags=site.place.tags,
        opts=guarded(core.RouteTable, site.provider),
    )


def _nat(site: Site, vcn: core.Vcn) -> core.NatGateway:
    return core.NatGateway(
        f"{site.place.name}-nat",
        compartment_id=site.cluster.compartment,
        vcn_id=vcn.id,
        display_name=f"{site.place.name}-nat",
        freeform_tags=site.place.tags,
        opts=guarded(core.NatGateway, site.provider),
    )


def _group(site: Site, vcn: core.Vcn, part: str) -> core.NetworkSecurityGroup:
    return core.NetworkSecurityGroup(
        f"{site.place.name}-{part}",
        compartment_id=site.cluster.compartment,
        vcn_id=vcn.id,
        display_name=f"{site.place.name}-{part}",
        freeform_tags=site.place.tags,
        opts=guarded(core.NetworkSecurityGroup, site.provider),
    )


def _rules(site: Site, api: core.NetworkSecurityGroup, nodes: core.NetworkSecurityGroup) -> None:
    name = site.place.name
    for port in (_API_PORT, _API_NODES_PORT):
        _inwards(site, f"{name}-api-{port}", api, nodes.id, port)
    for cidr in site.cluster.allow_from:
        _inwards(site, f"{name}-api-{cidr}", api, cidr, _API_PORT)
    _inwards(site, f"{name}-nodes-nodes", nodes, nodes.id)
    _inwards(site, f"{name}-nodes-api", nodes, api.id)
    for group, part in ((api, "api"), (nodes, "nodes")):
        core.NetworkSecurityGroupSecurityRule(
            f"{name}-{part}-out",
            network_security_group_id=group.id,
            direction="EGRESS",
            protocol=_ALL,
            destination=_ANYWHERE,
            destination_type="CIDR_BLOCK",
            opts=guarded(core.NetworkSecurityGroupSecurityRule, site.provider),
        )


def _inwards(
    site: Site,
    name: str,
    group: core.NetworkSecurityGroup,
    source: pulumi.Input[str],
    port: int | None = None,
) -> None:
    """Let a group or a network in; `port`: to one TCP port only."""
    ports = core.NetworkSecurityGroupSecurityRuleTcpOptionsDestinationPortRangeArgs
    core.NetworkSecurityGroupSecurityRule(
        name,
        network_security_group_id=group.id,
        direction="INGRESS",
        protocol=_TCP if port else _ALL,
        source=source,
        source_type="CIDR_BLOCK" if isinstance(source, str) else "NETWORK_SECURITY_GROUP",
        tcp_options=(
            core.NetworkSecurityGroupSecurityRuleTcpOptionsArgs(
                destination_port_range=ports(min=port, max=port)
            )
            if port
            else None
        ),
        opts=guarded(core.NetworkSecurityGroupSecurityRule, site.provider),
    )
