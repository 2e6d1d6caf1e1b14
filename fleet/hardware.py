"""Describe a kind of rack. The numbers are in `fleet/hardware/*.yaml`."""

from __future__ import annotations

from fleet.schema import DnsLabel, FileModel, Positive, Text

MIB = 1024**2


class Hardware(FileModel):
    """One kind of rack: how many nodes and GPUs, and how large they are."""

    name: DnsLabel
    gpu_product: Text  # value of the node label nvidia.com/gpu.product
    arch: Text  # value of the node label kubernetes.io/arch
    nodes_per_rack: Positive
    gpus_per_node: Positive
    gpu_memory_mib: Positive

    @property
    def gpu_memory_bytes(self) -> int:
        """Memory of one GPU."""
        return self.gpu_memory_mib * MIB
