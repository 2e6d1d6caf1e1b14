"""Hold what all parts of an EKS cluster share: the place, the provider, the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from fleet.clouds.aws import Cluster
from infra.clouds.contract import Place
from infra.clouds.guarded import guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One region of a fleet in one region of AWS."""

    place: Place
    cluster: Cluster
    provider: aws.Provider

    def name(self, part: str) -> str:
        """Name a resource of the region after its part in it."""
        return f"{self.place.region.name}-{part}"

    def options(
        self,
        kind: type[pulumi.CustomResource],
        *,
        depends_on: Sequence[pulumi.Resource] = (),
        ignore: Sequence[str] = (),
    ) -> pulumi.ResourceOptions:
        """Give the options of a resource: the region's provider, and what its kind must have."""
        return guarded(kind, self.provider, ignore=ignore, after=depends_on)


def make_provider(place: Place, cluster: Cluster) -> aws.Provider:
    """Make the region's only provider, which refuses credentials of any other account.

    No resource names a region of its own: they would leave the provider's tags
    and its account check behind.
    """
    return aws.Provider(
        f"{place.region.name}-aws",
        region=cluster.region,
        allowed_account_ids=[cluster.account],
        default_tags=aws.ProviderDefaultTagsArgs(tags=place.tags),
    )
