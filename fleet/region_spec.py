"""Define the part of a fleet file that says where racks are: regions and racks.

What differs between clouds is not here: `cluster` and `capacity` are typed by
the region's `cloud` (fleet/clouds).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    field_validator,
    model_validator,
)

from fleet.clouds import Cloud, Offer, read_part
from fleet.errors import ConfigError
from fleet.schema import Count, FileModel, Text, check_dns_label, found_text, refuse

REPLICA_NAME_MAX = 39  # Kueue's limit for a LeaderWorkerSet; Grove's is 45 with its suffixes
RACK_ID_MAX = REPLICA_NAME_MAX - len("-17")  # 18 replicas of one node each


def _rack_id(text: str) -> str:
    check_dns_label(text, RACK_ID_MAX)
    if text[0].isdigit():  # replicas are named after it, and a LeaderWorkerSet is DNS-1035
        raise refuse(f"{found_text(text)} starts with a digit", "Start it with a letter")
    return text


RackId = Annotated[str, AfterValidator(_rack_id)]
REGION_NAME_MAX = 40  # node and stack names are made of it


def _region_name(text: str) -> str:
    return check_dns_label(text, REGION_NAME_MAX)


def _utc_time(value: object) -> object:
    example = "Write it with its zone, for example 2027-01-31T11:30:00Z"
    try:
        time = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError as error:
        raise refuse(f"{found_text(value)} is no time", example) from error
    if time.tzinfo is None:  # hours off, and nobody would notice before the racks are gone
        raise refuse(f"{found_text(value)} names no time zone", example)
    try:
        return time.astimezone(UTC)
    except OverflowError as error:  # before year 1 or after 9999, once the zone is taken off
        raise refuse(f"{found_text(value)} is no time in UTC", example) from error


RegionName = Annotated[str, AfterValidator(_region_name)]


def _offer(cloud: object, data: object) -> object:
    return data if isinstance(data, FileModel) else Offer(cloud, data)


class RackSpec(FileModel):
    """One GB300 NVL72 system."""

    id: RackId = Field(description="the rack's stable name, which its nodes carry as a label")
    healthy_nodes: Count = 18  # of the 18 in a rack; the rest are broken or reserved
    replicas: Count | None = None  # None: all that fit
    # When the block or lease of this rack is over; alerts count down to it. None: it stays.
    capacity_ends_at: Annotated[datetime, BeforeValidator(_utc_time)] | None = None
    # What the rack is in its cloud, for example a reservation: fleet/clouds/CLOUD.py, class Rack.
    capacity: SerializeAsAny[FileModel] | None = None

    @field_validator("capacity", mode="plain")
    @classmethod
    def _of_its_cloud(cls, value: object) -> FileModel | None:
        return read_part("rack", value)


def _host_and_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or "/" in text or not port.isdigit() or not 0 < int(port) < PORTS:
        raise refuse(f"{text!r} is not host:port", "Write for example 10.0.0.2:8080")
    return text


PORTS = 65536
GatewayAddress = Annotated[Text, AfterValidator(_host_and_port)]


class RegionSpec(FileModel):
    """Racks in one place of one cloud, with their own frontends, router and gateway."""

    name: RegionName = Field(description="a DNS label, for example us-east")
    cloud: Cloud = "existing"
    context: Text | None = None  # kubeconfig context; None: the current one
    # Where other regions' gateways reach this one's: sessions can then be sent there when a region
    # is taken out of traffic. It is plain HTTP, for a network of your own.
    gateway_address: GatewayAddress | None = None
    # What its cloud is told to make: fleet/clouds/CLOUD.py, class Cluster. None: nothing is made.
    cluster: SerializeAsAny[FileModel] | None = None
    racks: tuple[RackSpec, ...] = Field(min_length=1, description="a list of racks with an id")

    @property
    def is_there(self) -> bool:
        """Whether somebody else made its cluster, so that it is there before the first `up`."""
        return self.cloud == "existing"

    @model_validator(mode="before")
    @classmethod
    def _hand_the_cloud_down(cls, data: object) -> object:
        """Tell the parts whose keys depend on the cloud which cloud it is."""
        if not isinstance(data, dict):
            return data
        cloud = data.get("cloud", cls.model_fields["cloud"].default)
        given = dict(data)
        if "cluster" in given:
            given["cluster"] = _offer(cloud, given["cluster"])
        if isinstance(racks := given.get("racks"), list | tuple):
            given["racks"] = [
                {**rack, "capacity": _offer(cloud, rack["capacity"])}
                if isinstance(rack, dict) and "capacity" in rack
                else rack
                for rack in racks
            ]
        return given

    @field_validator("cluster", mode="plain")
    @classmethod
    def _of_its_cloud(cls, value: object) -> FileModel | None:
        return read_part("cluster", value)


class Named(Protocol):
    """Anything that is called like a region."""

    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=Named)


def named_region(regions: Sequence[NamedT], name: str, fleet: str) -> NamedT:
    """Find a region by name, or say which ones there are."""
    for region in regions:
        if region.name == name:
            return region
    known = ", ".join(region.name for region in regions)
    raise ConfigError(f"region {name}: not in fleet {fleet}. Use one of: {known}.")
