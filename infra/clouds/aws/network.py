"""Make the VPC of a cluster, or take the one that is given.

The control plane and the system nodes live in regional zones, because EKS wants
two of them; the racks' nodes live where their capacity blocks are, which may be
a Local Zone of the same region. Traffic to S3 goes through a gateway endpoint: a
NAT gateway is too slow for 1.4 TB of weights, and asks money for every byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from fleet.clouds.aws import GivenNetwork, NewNetwork
from infra.clouds.aws.site import Site

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Where a cluster's parts go: subnets by zone."""

    vpc_id: pulumi.Input[str]
    control_plane: Mapping[str, pulumi.Input[str]]
    nodes: Mapping[str, pulumi.Input[str]]
    # What has to be there before a node can reach anything.
    ways_out: tuple[pulumi.Resource, ...] = ()


def network_of(site: Site) -> Network:
    """Give the network of a cluster."""
    network, _ = site.cluster.used_network
    if isinstance(network, GivenNetwork):
        return Network(vpc_id=network.vpc, control_plane=network.control_plane, nodes=network.nodes)
    return _made(site, network)


def _made(site: Site, network: NewNetwork) -> Network:
    vpc = ec2.Vpc(
        site.name("vpc"),
        cidr_block=network.cidr,
        enable_dns_support=True,
        enable_dns_hostnames=True,  # EKS wants both for its private endpoint
        tags={"Name": site.place.name},
        opts=site.options(ec2.Vpc),
    )
    gateways = _nat_gateways(site, network, vpc)
    control_plane: dict[str, pulumi.Input[str]] = {}
    nodes: dict[str, pulumi.Input[str]] = {}
    routed: list[pulumi.Resource] = []
    tables: list[ec2.RouteTable] = []
    for kind, zones, subnets in (
        ("control-plane", network.control_plane, control_plane),
        ("nodes", network.nodes, nodes),
    ):
        for zone, cidr in sorted(zones.items()):
            # Local Zones have no NAT gateway to count on: the first regional one serves them.
            gateway = gateways.get(zone) or gateways[min(gateways)]
            subnet = _subnet(site, vpc, f"{kind}-{zone}", zone, cidr)
            table, ways = _route(site, vpc, f"{kind}-{zone}", subnet, nat_gateway_id=gateway.id)
            subnets[zone] = subnet.id
            tables.append(table)
            routed += ways
    ec2.VpcEndpoint(
        site.name("s3"),
        vpc_id=vpc.id,
        service_name=f"com.amazonaws.{site.cluster.region}.s3",
        vpc_endpoint_type="Gateway",
        route_table_ids=[table.id for table in tables],
        tags={"Name": f"{site.place.name}-s3"},
        opts=site.options(ec2.VpcEndpoint),
    )
    return Network(vpc_id=vpc.id, control_plane=control_plane, nodes=nodes, ways_out=tuple(routed))


def _nat_gateways(site: Site, network: NewNetwork, vpc: ec2.Vpc) -> dict[str, ec2.NatGateway]:
    """Make a way out per public subnet, by zone."""
    internet = ec2.InternetGateway(
        site.name("internet"),
        vpc_id=vpc.id,
        tags={"Name": site.place.name},
        opts=site.options(ec2.InternetGateway),
    )
    gateways = {}
    for zone, cidr in sorted(network.public.items()):
        subnet = _subnet(site, vpc, f"public-{zone}", zone, cidr)
        _, ways = _route(site, vpc, f"public-{zone}", subnet, gateway_id=internet.id)
        address = ec2.Eip(
            site.name(f"nat-{zone}"),
            domain="vpc",
            tags={"Name": f"{site.place.name}-nat-{zone}"},
            opts=site.options(ec2.Eip, depends_on=[internet]),
        )
        gateways[zone] = ec2.NatGateway(
            site.name(f"nat-{zone}"),
            subnet_id=subnet.id,
            allocation_id=address.id,
            tags={"Name": f"{site.place.name}-{zone}"},
            opts=site.options(ec2.NatGateway, depends_on=ways),
        )
    return gateways


# By these tags the AWS load balancer controller finds its subnets.
_BALANCERS = {
    "public": {"kubernetes.io/role/elb": "1"},
    "control-plane": {"kubernetes.io/role/internal-elb": "1"},
}


def _subnet(site: Site, vpc: ec2.Vpc, part: str, zone: str, cidr: str) -> ec2.Subnet:
    balancers = _BALANCERS.get(part.removesuffix(f"-{zone}"), {})
    return ec2.Subnet(
        site.name(part),
        vpc_id=vpc.id,
        availability_zone=zone,
        cidr_block=cidr,
        map_public_ip_on_launch=False,
        tags={"Name": f"{site.place.name}-{part}", **balancers},
        opts=site.options(ec2.Subnet),
    )


def _route(
    site: Site, vpc: ec2.Vpc, part: str, subnet: ec2.Subnet, **target: pulumi.Input[str]
) -> tuple[ec2.RouteTable, list[pulumi.Resource]]:
    """Send what leaves a subnet to a gateway."""
    table = ec2.RouteTable(
        site.name(part),
        vpc_id=vpc.id,
        tags={"Name": f"{site.place.name}-{part}"},
        opts=site.options(ec2.RouteTable),
    )
    route = ec2.Route(
        site.name(part),
        route_table_id=table.id,
        destination_cidr_block=ANYWHERE,
        opts=site.options(ec2.Route),
        **target,
    )
    joined = ec2.RouteTableAssociation(
        site.name(part),
        route_table_id=table.id,
        subnet_id=subnet.id,
        opts=site.options(ec2.RouteTableAssociation),
    )
    return table, [route, joined]
