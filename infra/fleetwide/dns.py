"""Declare the clients' name: one record per region, taken out while its gateway is ill.

The addresses are written down in the fleet file, not read from the regions'
stacks: a client's name must not change because a region's stack was destroyed
or cannot be read, and a gateway may be in a cloud whose stack is elsewhere.
"""

from __future__ import annotations

from ipaddress import ip_address

import pulumi_aws as aws

from fleet.global_spec import DnsSpec, GatewayAddressSpec, is_ip
from infra.fleetwide.home import Home


def declare_dns(home: Home, dns: DnsSpec) -> str:
    """Declare checks and records; give the name."""
    for gateway in dns.gateways:
        _record(home, dns, gateway, _health_check(home, dns, gateway))
    return dns.name


def record_type(address: str) -> str:
    """Say what kind of record an address needs."""
    if not is_ip(address):
        return "CNAME"
    return "A" if ip_address(address).version == 4 else "AAAA"


def _health_check(home: Home, dns: DnsSpec, gateway: GatewayAddressSpec) -> aws.route53.HealthCheck:
    health = dns.health
    by_ip = is_ip(gateway.address)
    return aws.route53.HealthCheck(
        f"gateway-{gateway.region}",
        type=health.protocol.upper(),
        # By IP the checkers ask for the clients' name; by name they ask for that one.
        ip_address=gateway.address if by_ip else None,
        fqdn=dns.name if by_ip else gateway.address,
        port=health.port,
        resource_path=health.path,
        request_interval=health.interval_s,
        failure_threshold=health.failures,
        enable_sni=health.protocol == "https",
        tags={
            **home.tags,
            "k3fleet:region": gateway.region,
            "Name": f"{dns.name} {gateway.region}",
        },
        opts=home.in_region(home.spec.region),
    )


def _record(
    home: Home,
    dns: DnsSpec,
    gateway: GatewayAddressSpec,
    check: aws.route53.HealthCheck,
) -> None:
    latency = dns.routing == "latency" and gateway.aws_region is not None
    aws.route53.Record(
        f"gateway-{gateway.region}",
        zone_id=dns.zone_id,
        name=dns.name,
        type=record_type(gateway.address),
        ttl=dns.ttl_s,
        records=[gateway.address],
        set_identifier=gateway.region,
        health_check_id=check.id,
        latency_routing_policies=[{"region": gateway.aws_region}] if latency else None,
        weighted_routing_policies=None if latency else [{"weight": gateway.weight}],
        # Another stack's record, or one made by hand, is not taken over.
        allow_overwrite=False,
        opts=home.in_region(home.spec.region),
    )
