"""Describe an OKE cluster and its racks: one rack is one GPU memory fabric.

An OKE node pool cannot ask for a fabric. So a rack's nodes are started by a GPU
memory cluster from an instance configuration, and join the cluster by themselves
(self-managed nodes); what they need for it is in their cloud-init.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from fleet.clouds.fields import (
    CallerCidr,
    Cidr,
    DiskGib,
    Quoted,
    SystemCount,
    check_apart,
    check_inside,
    matching,
)
from fleet.clouds.part import CloudSchema, Fault
from fleet.schema import FileModel, Positive, Text, refuse


def _ocid(kind: str, *others: str) -> AfterValidator:
    """Take OCIDs of a kind of resource; `others`: kinds that will do as well."""
    kinds = "|".join((kind, *others))
    form = rf"ocid1\.(?:{kinds})\.oc[0-9]+\.[a-z0-9-]*\.[a-z0-9]+"
    return matching(form, f"OCID of a {kind}", f"ocid1.{kind}.oc1..aaaa, with all its letters")


# DRA is broken in these (Oracle's guide for GB200 and GB300 on OKE).
_BROKEN_VERSIONS = ("v1.34.0", "v1.34.1")


def _working(text: str) -> str:
    if text in _BROKEN_VERSIONS:
        raise refuse(f"DRA does not work in {text}", "Take a later release, v1.34.2 or more")
    return text


Tenancy = Annotated[str, _ocid("tenancy")]
Compartment = Annotated[str, _ocid("compartment", "tenancy")]
Image = Annotated[str, _ocid("image")]
Key = Annotated[str, _ocid("key")]
OciRegion = Annotated[str, matching(r"[a-z]{2}-[a-z]+-[0-9]", "region", "us-ashburn-1")]
Version = Annotated[
    str,
    Quoted,
    matching(r"v1\.[0-9]+\.[0-9]+", "OKE release", "v1.34.2"),
    AfterValidator(_working),
]
AvailabilityDomain = Annotated[
    str,
    matching(r"[A-Za-z0-9]+:[A-Z0-9-]+-AD-[0-9]", "availability domain", "XyZw:US-ASHBURN-AD-1"),
]


class Network(FileModel):
    """The VCN that is made, and what pods and services get."""

    cidr: Cidr = "10.80.0.0/16"
    api: Cidr = "10.80.0.0/28"
    nodes: Cidr = "10.80.16.0/20"
    # Flannel's: Oracle's guide has VCN-native pod networking as faulty on Grace Blackwell.
    pods: Cidr = "10.96.0.0/14"
    services: Cidr = "10.81.0.0/16"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_inside(self.cidr, [("api", self.api), ("nodes", self.nodes)])
        check_apart([("api", self.api), ("nodes", self.nodes)])
        check_apart((name, getattr(self, name)) for name in ("cidr", "pods", "services"))
        return self


class SystemNodes(FileModel):
    """The nodes for everything but engines: an ordinary node pool."""

    image: Image = Field(description="an OKE image for the shape and the version, ocid1.image.…")
    shape: Text = "VM.Standard.A2.Flex"  # Arm, like the racks' Grace processors
    ocpus: Annotated[Positive, Field(le=78)] = 8
    memory_gib: Annotated[Positive, Field(le=946)] = 64
    count: SystemCount = 3
    disk_gib: DiskGib = 200


class Cluster(FileModel):
    """One OKE cluster, in the availability domain of its racks."""

    tenancy: Tenancy = Field(description="the tenancy; credentials of another one fail")
    compartment: Compartment = Field(description="where everything is made, ocid1.compartment.…")
    region: OciRegion = Field(description="the region, for example us-ashburn-1")
    # IAM is written in the tenancy's home region only.
    home_region: OciRegion = Field(description="the tenancy's home region")
    availability_domain: AvailabilityDomain = Field(description="of the racks, AbCd:REGION-AD-1")
    profile: Text = "DEFAULT"  # of the OCI configuration file
    version: Version = Field(description="the whole release, v1.34.2")
    network: Network = Network()
    # Who may reach the API server apart from the nodes; it has a private address only.
    allow_from: tuple[CallerCidr, ...] = ()
    secrets_key: Key | None = None  # encrypts Secrets in etcd; None: with Oracle's own key
    disk_key: Key | None = None  # encrypts root volumes; None: with Oracle's own key
    system_nodes: SystemNodes = Field(description="the nodes for everything but engines")
    # Unverified: the name, from Oracle's guide for the shape with four GPUs.
    shape: Text = "BM.GPU.GB300.4"


class Rack(FileModel):
    """One GPU memory fabric, and the image that its nodes start from."""

    fabric: Annotated[str, _ocid("computegpumemoryfabric")] = Field(
        description="ocid1.computegpumemoryfabric.…"
    )
    # Must hold the driver, the RDMA stack and the OKE node packages of the cluster's version.
    image: Image = Field(description="the GPU image that the nodes start from, ocid1.image.…")
    disk_gib: DiskGib = 512  # root volume, as in Oracle's guide


def _faults(_cluster: Cluster, _racks: Mapping[int, Rack]) -> Iterator[Fault]:
    return iter(())


SCHEMA = CloudSchema(
    cluster=Cluster, rack=Rack, needs_capacity=True, exclusive="fabric", faults=_faults
)
