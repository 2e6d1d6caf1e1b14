"""Read from a fleet file which capacity each of its racks is said to have."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.capacity.blocks import Claim
from fleet.clouds import aws
from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.plan import make_plan
from fleet.region_spec import RegionSpec

# A rack is 18 trays of 4 GPUs. AWS calls the type of 72 GPUs like its trays: u-p6e-gb200x72 of
# p6e-gb200.36xlarge (EKS user guide); for GB300 by analogy only, hence --ultraserver-type.
_RACK_GPUS = 72


def rack_replicas(fleet: Fleet) -> dict[str, int]:
    """Count the replicas of each rack, which have to drain at its end."""
    return {rack.id: rack.replicas for region in make_plan(fleet).regions for rack in region.racks}


def aws_claims(fleet: Fleet) -> list[Claim]:
    """List the racks of regions that are in AWS."""
    replicas = rack_replicas(fleet)
    return [
        Claim(
            fleet_region=region.name,
            rack=rack.id,
            cloud="aws",
            region=cluster.region,
            reservation=rack.capacity.reservation if isinstance(rack.capacity, aws.Rack) else None,
            ends_at=rack.capacity_ends_at,
            replicas=replicas[rack.id],
        )
        for region, cluster in aws_regions(fleet)
        for rack in region.racks
    ]


def aws_regions(fleet: Fleet) -> list[tuple[RegionSpec, aws.Cluster]]:
    """List the fleet's regions in AWS that say where."""
    return [
        (region, region.cluster)
        for region in fleet.spec.regions
        if isinstance(region.cluster, aws.Cluster)
    ]


def require_aws(fleet: Fleet) -> list[tuple[RegionSpec, aws.Cluster]]:
    """List them; raise ConfigError when there is none, as nothing can be bought then."""
    found = aws_regions(fleet)
    if not found:
        raise ConfigError(
            f"{fleet.path}: no region has cloud: aws and a cluster. Capacity blocks are sold there."
        )
    return found


def account_of(fleet: Fleet, region: str) -> str:
    """Give the account of the fleet's clusters in an AWS region."""
    accounts = {cluster.account for _, cluster in aws_regions(fleet) if cluster.region == region}
    if len(accounts) != 1:
        raise ConfigError(
            f"{fleet.path}: its clusters in {region} are of {len(accounts)} accounts. "
            "Use a fleet file per account to buy capacity."
        )
    return accounts.pop()


def default_rack_type(fleet: Fleet) -> str:
    """Derive the UltraServer type from the trays' instance type that the racks name."""
    types = {
        rack.capacity.instance_type
        for region, _ in aws_regions(fleet)
        for rack in region.racks
        if isinstance(rack.capacity, aws.Rack)
    } or {str(aws.Rack.model_fields["instance_type"].default)}
    if len(types) > 1:
        raise ConfigError(
            f"{fleet.path}: its racks have {' and '.join(sorted(types))}. Give --ultraserver-type."
        )
    return f"u-{types.pop().partition('.')[0]}x{_RACK_GPUS}"


def choose_region(fleet: Fleet, aws_region: str, name: str | None) -> RegionSpec:
    """Choose the fleet's region that an offer is for; raise ConfigError for a wrong one."""
    fitting = [region for region, cluster in require_aws(fleet) if cluster.region == aws_region]
    if name is not None:
        chosen = [region for region in fitting if region.name == name]
        if not chosen:
            raise ConfigError(
                f"--region: {name!r} is no region of the fleet in {aws_region}. "
                f"Fitting: {', '.join(region.name for region in fitting) or 'none'}."
            )
        return chosen[0]
    if not fitting:
        raise ConfigError(
            f"{fleet.path}: has no region in {aws_region}, where the offer is. "
            "Take an offer of another region, or add one to the fleet file."
        )
    if len(fitting) > 1:
        names = ", ".join(region.name for region in fitting)
        raise ConfigError(f"{fleet.path}: has {names} in {aws_region}. Say --region.")
    return fitting[0]


def check_racks(region: RegionSpec, racks: Sequence[str], count: int) -> None:
    """Refuse racks that the region does not have, that have capacity, or that are too many."""
    if not racks:
        return
    known = {rack.id: rack for rack in region.racks}
    for rack in racks:
        if rack not in known:
            raise ConfigError(
                f"--rack: {region.name} has no rack {rack!r}. Known: {', '.join(known)}."
            )
        if known[rack].capacity is not None:
            raise ConfigError(f"--rack: {rack} has capacity already. Take another rack.")
    if len(set(racks)) != count:
        raise ConfigError(
            f"--rack: {len(set(racks))} racks are named, the offer has {count}. Name each one."
        )
