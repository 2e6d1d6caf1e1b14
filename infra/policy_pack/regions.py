"""Each cloud resource goes through an explicit provider of one region, and has no region itself."""

from __future__ import annotations

from collections.abc import Sequence

from infra.policy_pack.resource import UNKNOWN, Config, Fault, Faults, Policy, Resource

# Providers whose configuration, left out, comes from whatever the shell is signed in to.
_CLOUDS = frozenset({"aws", "azure-native", "coreweave", "gcp", "kubernetes", "nebius", "oci"})
_PROVIDER = "pulumi:providers:"


def _explicit(resource: Resource, _config: Config) -> Faults:
    package = resource.type.partition(":")[0]
    if package not in _CLOUDS:
        return
    provider = resource.provider
    if provider is None or provider.name.startswith("default"):
        yield Fault(
            resource,
            "it is made by the default provider, in the account and region of the shell",
            "Give it a provider of its region",
        )
        return
    own, theirs = resource.at("region"), provider.props.get("region")
    if package == "aws" and own not in (None, "", UNKNOWN) and own != theirs:
        yield Fault(
            resource,
            f"it is in {own}, its provider in {theirs}",
            "Leave `region` out, and give it a provider of that region",
        )


def _one_each(resources: Sequence[Resource], _config: Config) -> Faults:
    """Find regions that have two providers: what is made by one is unknown to the other."""
    first: dict[tuple[str, str, str], Resource] = {}
    for item in resources:
        region = item.at("region")
        if not item.type.startswith(_PROVIDER) or item.name.startswith("default"):
            continue
        if not isinstance(region, str) or region == UNKNOWN:
            continue
        accounts = str(item.at("allowedAccountIds") or item.at("project") or "")
        key = (item.type, region, accounts)
        other = first.setdefault(key, item)
        if other is not item:
            package = item.type.removeprefix(_PROVIDER)
            what = f"{package} has two providers of {region}, {other.name} too"
            yield Fault(item, what, "Use one for all of them")


POLICIES = (
    Policy(
        name="explicit-provider",
        title="Every cloud resource has a provider of its region",
        one=_explicit,
    ),
    Policy(
        name="one-provider-per-region",
        title="A region has one provider of a cloud",
        stack=_one_each,
    ),
)
