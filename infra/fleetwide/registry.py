"""Declare the registry caches: nodes pull from their own region, and an upstream may be down."""

from __future__ import annotations

import pulumi_aws as aws

from fleet.global_spec import PullThroughSpec, RegistrySpec
from infra.aws_bucket import host_suffix
from infra.fleetwide.home import Home


def declare_registry(home: Home, spec: RegistrySpec) -> dict[str, str]:
    """Declare each rule in each region; give the registry's host by region."""
    for region in spec.regions:
        for rule in spec.pull_through:
            aws.ecr.PullThroughCacheRule(
                f"{rule.prefix}-{region}",
                ecr_repository_prefix=rule.prefix,
                upstream_registry_url=rule.upstream,
                credential_arn=_secret(rule, region),
                opts=home.in_region(region),
            )
    return {
        region: f"{home.spec.account}.dkr.ecr.{region}.{host_suffix(region)}"
        for region in spec.regions
    }


def _secret(rule: PullThroughSpec, region: str) -> str | None:
    """Name the secret's replica in a region: all but the region is the same."""
    if rule.secret is None:
        return None
    parts = rule.secret.split(":")
    return ":".join([*parts[:3], region, *parts[4:]])
