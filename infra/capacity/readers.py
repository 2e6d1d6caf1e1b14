"""Choose who reads the capacity of a fleet: one reader per cloud that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleet.capacity.blocks import Block, Claim
from fleet.capacity.claims import account_of, aws_claims, aws_regions
from fleet.clouds import aws, gcp, oci
from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.schema import FileModel
from infra.capacity.aws_access import AwsAccess, check_account
from infra.capacity.aws_blocks import read_blocks, with_health
from infra.capacity.contract import CapacityReader
from infra.capacity.gcp import GcpReader
from infra.capacity.oci import OciReader


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsReader:
    """Watch a fleet's racks in AWS."""

    fleet: Fleet
    access: AwsAccess

    def claims(self) -> list[Claim]:
        """See `CapacityReader`."""
        return aws_claims(self.fleet)

    def blocks(self) -> list[Block]:
        """See `CapacityReader`; gives all blocks of the account, which may be others' too."""
        found: list[Block] = []
        for region in dict.fromkeys(cluster.region for _, cluster in aws_regions(self.fleet)):
            check_account(self.access, region, account_of(self.fleet, region))
            found += with_health(self.access, region, read_blocks(self.access, region))
        return found


def readers(fleet: Fleet, access: Callable[[], AwsAccess]) -> list[CapacityReader]:
    """Give the readers of the clouds that the fleet's clusters are in."""
    made: Mapping[type[FileModel], Callable[[], CapacityReader]] = {
        aws.Cluster: lambda: AwsReader(fleet=fleet, access=access()),
        gcp.Cluster: lambda: GcpReader(fleet=fleet),
        oci.Cluster: lambda: OciReader(fleet=fleet),
    }
    kinds = dict.fromkeys(type(region.cluster) for region in fleet.spec.regions if region.cluster)
    found = [made[kind]() for kind in kinds if kind in made]
    if not found:
        raise ConfigError(
            f"{fleet.path}: no region has a cluster in aws, gcp or oci. "
            "Only their capacity can be read; ask the cloud of your racks."
        )
    return found
