"""Describe a Nebius cluster and its racks: one rack is one NVLink instance group.

Its nodes come from a capacity block group, which is what Nebius sells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from fleet.clouds.fields import Cidr, DiskGib, SystemCount, matching
from fleet.clouds.part import CloudSchema, Fault
from fleet.schema import FileModel, Text

_ID = "[a-z0-9]+"  # Nebius's ids: kind, dash, letters and digits
Project = Annotated[str, matching(f"project-{_ID}", "project id", "project-e00abc")]
CapacityBlocks = Annotated[
    str, matching(f"capacityblockgroup-{_ID}", "capacity block group", "capacityblockgroup-e00abc")
]


class SystemNodes(FileModel):
    """The nodes for everything but engines."""

    platform: Text = Field(description="a platform without GPUs, for example cpu-d3")
    preset: Text = Field(description="its preset, for example 16vcpu-64gb")
    count: SystemCount = 3
    disk_gib: DiskGib = 200


class Cluster(FileModel):
    """One cluster of Managed Kubernetes."""

    project: Project = Field(description="the project's id; credentials of another one fail")
    nodes: Cidr = "10.144.0.0/13"  # of nodes and pods
    services: Cidr = "10.152.0.0/16"
    # The InfiniBand fabric of the capacity blocks: racks in one fabric reach each other over RDMA.
    fabric: Text = Field(description="the fabric's name, which the capacity block group shows")
    # Unverified: what Nebius calls the trays of a GB300 NVL72; so there is no default.
    platform: Text = Field(description="the GPU platform, as `nebius compute platform list` has it")
    preset: Text = Field(description="the preset of one tray, with 4 GPUs")
    # None: no driver in the image, which is what a node group with DRA wants.
    drivers_preset: Text | None = None
    system_nodes: SystemNodes


class Rack(FileModel):
    """What the rack's nodes are reserved in."""

    reservation: CapacityBlocks = Field(description="the capacity block group's id")
    disk_gib: DiskGib = 500  # root; weights go to the node's own disks


def _faults(cluster: Cluster, _racks: Mapping[int, Rack]) -> Iterator[Fault]:
    return iter(())


SCHEMA = CloudSchema(cluster=Cluster, rack=Rack, needs_capacity=True, faults=_faults)
