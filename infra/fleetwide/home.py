"""Hold what every part needs: names, tags, and one provider per AWS region."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from fleet.global_spec import GlobalSpec
from infra.clouds.contract import MANAGED_BY
from infra.clouds.protected import kept

REGION_TAG = "global"  # in the place of a region's name


@dataclass(slots=True, kw_only=True)
class Home:
    """The account that all of it is in."""

    fleet: str
    spec: GlobalSpec
    _providers: dict[str, aws.Provider] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What keys and roles are called after."""
        return self.spec.name or self.fleet

    @property
    def tags(self) -> dict[str, str]:
        """What everything that can have tags carries."""
        return {
            "k3fleet:fleet": self.fleet,
            "k3fleet:region": REGION_TAG,
            "k3fleet:managed-by": MANAGED_BY,
        }

    def in_region(
        self,
        region: str,
        type_token: str = "",
        *,
        depends_on: list[pulumi.Resource] | None = None,
    ) -> pulumi.ResourceOptions:
        """Give the options of a resource: its region's provider, and what its kind is kept by."""
        options = pulumi.ResourceOptions(provider=self._provider(region), depends_on=depends_on)
        return kept(type_token, options)

    def _provider(self, region: str) -> aws.Provider:
        """Give the one provider of a region, which refuses the credentials of another account."""
        if region not in self._providers:
            self._providers[region] = aws.Provider(
                f"aws-{region}", region=region, allowed_account_ids=[self.spec.account]
            )
        return self._providers[region]
