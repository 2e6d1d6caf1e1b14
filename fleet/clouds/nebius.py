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
    # Of the credentials' configuration file; None: what the environment has.
    profile: Text | None = None
    nodes: Cidr | None = None  # of nodes and pods; None: from the pools of the new network
    services: Cidr = "10.152.0.0/16"
    # The InfiniBand fabric of the capacity blocks: racks in one fabric reach each other over RDMA.
    fabric: Text = Field(description="the fabric's name, which the capacity block group shows")
    # Unverified: the name and the preset's, from third parties' public code.
    platform: Text = "gpu-gb300"
    preset: Text = Field(description="of one tray; `nebius compute platform list` shows it")
    # The driver in the nodes' image. Unverified: that GB300's image must hold one.
    drivers_preset: Text = Field(description="of the GPU driver in the image, for example cuda13.0")
    # Nebius's own DRA for GPUs takes the device plugin away, which engines ask for GPUs.
    managed_dra: bool = False
    # Unverified: whether Nebius takes cloud-init without a key; None: without.
    ssh_key: Text | None = None  # a public one
    system_nodes: SystemNodes = Field(description="the nodes for everything but engines")


class Rack(FileModel):
    """What the rack's nodes are reserved in."""

    reservation: CapacityBlocks = Field(description="the capacity block group's id")
    disk_gib: DiskGib = 500  # root; weights go to the node's own disks


def _faults(_cluster: Cluster, _racks: Mapping[int, Rack]) -> Iterator[Fault]:
    return iter(())


SCHEMA = CloudSchema(
    cluster=Cluster,
    rack=Rack,
    needs_capacity=True,
    system_pool="system",
    faults=_faults,
)
