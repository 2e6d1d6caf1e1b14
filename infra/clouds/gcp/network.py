"""Declare the networks of a GKE cluster of A4X Max."""

from __future__ import annotations

from dataclasses import dataclass

from pulumi_gcp import compute

from infra.clouds.gcp.site import Site
from infra.clouds.guarded import guarded
from infra.clouds.names import fitted

_JUMBO = 8896  # what RoCE networks want


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """The cluster's network, that of the second card, and the RoCE network."""

    main: compute.Network
    nodes: compute.Subnetwork
    second: compute.Network
    second_nodes: compute.Subnetwork
    roce: compute.Network


def declare_networks(site: Site) -> Networks:
    """Declare the three networks, and the way out of the first."""
    cluster, name = site.cluster, site.place.name
    main = _network(site, "main")
    second = _network(site, "second")
    profile = f"projects/{cluster.project}/global/networkProfiles/{cluster.zone}"
    roce = compute.Network(
        f"{name}-roce",
        name=fitted(f"{name}-roce", 63),
        auto_create_subnetworks=False,
        network_profile=f"{profile}-{cluster.roce_profile}",
        mtu=_JUMBO,
        opts=guarded(compute.Network, site.provider),
    )
    nodes = _subnetwork(
        site,
        main,
        "nodes",
        cluster.network.nodes,
        ranges={"pods": cluster.network.pods, "services": cluster.network.services},
    )
    second_nodes = _subnetwork(site, second, "second", cluster.network.second)
    _way_out(site, main)
    compute.Firewall(
        f"{name}-second",
        name=fitted(f"{name}-second", 63),
        network=second.id,
        direction="INGRESS",
        source_ranges=[cluster.network.second],
        allows=[compute.FirewallAllowArgs(protocol=kind) for kind in ("tcp", "udp", "icmp")],
        opts=guarded(compute.Firewall, site.provider),
    )
    return Networks(main=main, nodes=nodes, second=second, second_nodes=second_nodes, roce=roce)


def _network(site: Site, part: str) -> compute.Network:
    return compute.Network(
        f"{site.place.name}-{part}",
        name=fitted(f"{site.place.name}-{part}", 63),
        auto_create_subnetworks=False,
        mtu=_JUMBO,
        opts=guarded(compute.Network, site.provider),
    )


def _subnetwork(
    site: Site,
    network: compute.Network,
    part: str,
    cidr: str,
    ranges: dict[str, str] | None = None,
) -> compute.Subnetwork:
    return compute.Subnetwork(
        f"{site.place.name}-{part}",
        name=fitted(f"{site.place.name}-{part}", 63),
        network=network.id,
        region=site.cluster.region,
        ip_cidr_range=cidr,
        private_ip_google_access=True,
        secondary_ip_ranges=[
            compute.SubnetworkSecondaryIpRangeArgs(range_name=name, ip_cidr_range=part_cidr)
            for name, part_cidr in (ranges or {}).items()
        ],
        opts=guarded(compute.Subnetwork, site.provider),
    )


def _way_out(site: Site, network: compute.Network) -> None:
    """Let nodes without public addresses fetch images."""
    name = site.place.name
    router = compute.Router(
        f"{name}-out",
        name=fitted(f"{name}-out", 63),
        network=network.id,
        region=site.cluster.region,
        opts=guarded(compute.Router, site.provider),
    )
    compute.RouterNat(
        f"{name}-out",
        name=fitted(f"{name}-out", 63),
        router=router.name,
        region=site.cluster.region,
        nat_ip_allocate_option="AUTO_ONLY",
        source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
        opts=guarded(compute.RouterNat, site.provider),
    )
