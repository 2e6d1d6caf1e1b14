"""Describe a kind of rack. The numbers are in `fleet/hardware/*.yaml`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.schema import DnsLabel, FileModel, LabelValue, Positive

MIB = 1024**2
# Above any that there is: a typing error must not become a plan of a million replicas.
MAX_NODES_PER_RACK = 1000
MAX_GPUS_PER_NODE = 64
MAX_GPU_MEMORY_MIB = 16 * 1024**2


class Hardware(FileModel):
    """One kind of rack: how many nodes and GPUs, and how large they are."""

    name: DnsLabel
    gpu_product: LabelValue  # value of the node label nvidia.com/gpu.product
    arch: LabelValue  # value of the node label kubernetes.io/arch
    nodes_per_rack: Annotated[Positive, Field(le=MAX_NODES_PER_RACK)]
    gpus_per_node: Annotated[Positive, Field(le=MAX_GPUS_PER_NODE)]
    gpu_memory_mib: Annotated[Positive, Field(le=MAX_GPU_MEMORY_MIB)]

    @property
    def gpu_memory_bytes(self) -> int:
        """Memory of one GPU."""
        return self.gpu_memory_mib * MIB
