"""Describe a CKS cluster and its racks: one rack is one node pool of one NVL72.

The node pools are Kubernetes objects of the new cluster. So a cluster is made in
two steps: first the VPC and CKS, then, with a kubeconfig that its owner fetched,
the racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fleet.clouds.fields import Cidr, SystemCount, check_apart, matching
from fleet.clouds.part import CloudSchema, Fault
from fleet.schema import FileModel, Text, refuse

Zone = Annotated[str, matching(r"[A-Z0-9-]+[0-9]+[A-Z]", "availability zone", "US-EAST-02A")]
# gb300-4x on InfiniBand, gb300-4x-e on RoCE. Unverified: from third parties' public code.
InstanceType = Annotated[str, matching(r"[a-z0-9-]+", "instance type", "gb300-4x")]


class Network(FileModel):
    """The VPC that is made, and what pods, services and load balancers get of it."""

    hosts: Cidr = "10.128.0.0/18"
    pods: Cidr = "10.132.0.0/14"
    services: Cidr = "10.129.0.0/16"
    load_balancers: Cidr = "10.130.0.0/22"

    @model_validator(mode="after")
    def _apart(self) -> Self:
        check_apart((name, getattr(self, name)) for name in type(self).model_fields)
        if not self.hosts.endswith("/18"):  # CoreWeave takes no other size
            raise refuse(f"hosts: {self.hosts} is no /18", "Take a /18, for example 10.128.0.0/18")
        return self


class SystemNodes(FileModel):
    """The nodes for everything but engines."""

    instance_type: InstanceType = Field(
        description="one without GPUs, for example cd-gp-a192-genoa"
    )
    count: SystemCount = 3


class Cluster(FileModel):
    """One CKS cluster, in the zone of its racks."""

    zone: Zone = Field(description="the availability zone, for example US-EAST-02A")
    network: Network = Network()
    # Whether addresses that nodes announce are seen by the internet, for a public gateway.
    public_services: bool = False
    # CKS has no allow list: private, or open to everybody who holds a token.
    public: bool = False
    # A kubeconfig of the cluster, on the machine that runs `up`, relative to the fleet file.
    # None until the cluster is there; from then on, because the racks are made through it.
    kubeconfig: Text | None = None
    instance_type: InstanceType = "gb300-4x"
    # What a node pool counts. Unverified which of the two an account's CKS wants: CoreWeave's
    # reference has targetRacks for NVL72 in one edition, and targetNodes only in another.
    size_in: Literal["racks", "nodes"] = "racks"
    system_nodes: SystemNodes | None = None  # None: a pool for everything but engines is there


class Rack(FileModel):
    """Nothing: CKS takes a free rack of the organisation's, and names it by a label."""


def _faults(_cluster: Cluster, _racks: Mapping[int, Rack]) -> Iterator[Fault]:
    return iter(())


SCHEMA = CloudSchema(
    cluster=Cluster,
    rack=Rack,
    needs_capacity=False,
    system_pool="system",
    name_max=30,  # CKS
    faults=_faults,
)
