"""Describe an AKS cluster and its racks: one rack is one agent pool in a capacity reservation.

Azure has an object for a rack, the interconnect block, but AKS takes none: what
keeps a pool in one NVLink domain is that a scale set of this size comes in eighteens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fleet.clouds.fields import (
    UUID,
    Cidr,
    DiskGib,
    Quoted,
    SystemCount,
    check_apart,
    check_inside,
    matching,
)
from fleet.clouds.part import CloudSchema, Fault
from fleet.schema import FileModel, Text


def _resource(provider: str, kind: str) -> str:
    return (
        rf"/subscriptions/{UUID}/resource[gG]roups/[\w.()-]+/providers/Microsoft\.{provider}"
        rf"/{kind}/[\w.-]+"
    )


Guid = Annotated[str, matching(UUID, "id", "01234567-89ab-cdef-0123-456789abcdef")]
Location = Annotated[str, matching(r"[a-z]+[0-9]*", "location", "eastus2")]
Version = Annotated[str, Quoted, matching(r"1\.[0-9]+\.[0-9]+", "AKS release", "1.35.5")]
_RESERVATION_GROUP = _resource("Compute", "[cC]apacityReservationGroups")
ReservationGroup = Annotated[
    str,
    matching(
        _RESERVATION_GROUP,
        "capacity reservation group",
        "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/capacityReservationGroups/N",
    ),
]
Vault = Annotated[
    str,
    matching(
        _resource("KeyVault", "vaults"),
        "key vault",
        "/subscriptions/S/resourceGroups/G/providers/Microsoft.KeyVault/vaults/N",
    ),
]
DiskEncryptionSet = Annotated[
    str,
    matching(
        _resource("Compute", "diskEncryptionSets"),
        "disk encryption set",
        "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/diskEncryptionSets/N",
    ),
]
KeyUrl = Annotated[
    str,
    matching(
        r"https://[a-z0-9-]+\.vault\.azure\.net/keys/[\w-]+/[0-9a-f]{32}",
        "key with its version",
        "https://VAULT.vault.azure.net/keys/KEY/VERSION",
    ),
]


class Network(FileModel):
    """The virtual network that is made, and what pods and services get."""

    cidr: Cidr = "10.112.0.0/16"
    nodes: Cidr = "10.112.16.0/20"
    pods: Cidr = "10.116.0.0/14"  # of the overlay, seen by no other network
    services: Cidr = "10.113.0.0/16"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_inside(self.cidr, [("nodes", self.nodes)])
        check_apart((name, getattr(self, name)) for name in ("cidr", "pods", "services"))
        return self


class SecretsKey(FileModel):
    """The key that encrypts Secrets in etcd."""

    key: KeyUrl = Field(description="the key's address with its version")
    vault: Vault = Field(description="the vault's resource id; it must be reached privately")


class SystemNodes(FileModel):
    """The nodes for everything but engines."""

    vm_size: Text = "Standard_D16ps_v6"  # Arm, like the racks' Grace processors
    count: SystemCount = 3
    disk_gib: DiskGib = 200


class Cluster(FileModel):
    """One AKS cluster, in the zone of its racks."""

    subscription: Guid = Field(description="the subscription; credentials of another one fail")
    tenant: Guid = Field(description="the tenant of Entra ID that the subscription trusts")
    location: Location = Field(description="the region, for example eastus2")
    # Of the racks; None: the location has no zones.
    zone: Annotated[Literal["1", "2", "3"], Quoted] | None = None
    version: Version = Field(description="the whole AKS release, 1.35.5")
    network: Network = Network()
    # Groups of Entra ID that may administrate the cluster: there is no other account.
    admin_groups: tuple[Guid, ...] = Field(min_length=1, description="object ids of groups")
    secrets_key: SecretsKey | None = None  # None: with Microsoft's own key
    disk_encryption_set: DiskEncryptionSet | None = None  # None: with Microsoft's own key
    system_nodes: SystemNodes = SystemNodes()
    # The one name of the GB300 tray that public texts have; GB200's has NDR in it.
    vm_size: Text = "Standard_ND128isr_GB300_v6"


class Rack(FileModel):
    """What the rack's virtual machines are reserved in."""

    reservation_group: ReservationGroup = Field(
        description="the capacity reservation group's resource id, with 18 reserved in it"
    )
    disk_gib: DiskGib = 500  # root; weights go to the node's own disks

    @property
    def resource_group(self) -> str:
        """Where the reservation group is: the cluster's identity needs rights there."""
        return self.reservation_group.partition("/providers/")[0]


def _faults(cluster: Cluster, racks: Mapping[int, Rack]) -> Iterator[Fault]:
    for index, rack in racks.items():
        if rack.reservation_group.split("/")[2] != cluster.subscription:
            path = ("racks", index, "capacity", "reservation_group")
            what = "the reservation group is in another subscription"
            yield Fault(path, what, f"Name one of {cluster.subscription}")


SCHEMA = CloudSchema(
    cluster=Cluster,
    rack=Rack,
    needs_capacity=True,
    exclusive="reservation_group",
    name_max=54,  # of AKS's DNS prefix
    faults=_faults,
)
