"""The lab's pod network: every address of every pod is a loopback address.

A region owns 16 blocks of 127.LAB.x.y. What the API server shows for a pod is 10.LAB.x.y,
since Kubernetes refuses loopback addresses in EndpointSlices; the process behind it listens on
127.LAB.x.y. So all pods can use the ports that their manifest says, and nothing leaves the
machine.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from fleet.errors import LabError

BLOCKS_PER_REGION = 16
REGIONS_PER_LAB = 16
LAB_NUMBERS = range(64, 120)
RESERVED_HOSTS = 10  # 127.LAB.block.1 … 9 of the first block: control plane, gateway, DNS


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionNetwork:
    """The loopback addresses of one region in one lab."""

    lab: int
    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < REGIONS_PER_LAB:
            raise LabError(
                f"regions: a lab holds {REGIONS_PER_LAB} regions, this is number {self.index + 1}. "
                "Rehearse with fewer regions."
            )

    @property
    def control_plane(self) -> str:
        """Address of etcd, the API server, the controllers and the cluster DNS."""
        return self._host(1)

    @property
    def gateway(self) -> str:
        """Address where the region's gateway listens: what a load balancer has in a cloud."""
        return self._host(2)

    def pod(self, number: int) -> str:
        """Return the loopback address of the region's pod with this number (0, 1, …)."""
        offset = RESERVED_HOSTS + number
        if offset >= BLOCKS_PER_REGION * 256 - 1:
            raise LabError(f"pods: the lab's network of a region is full at {number} pods.")
        return self._host(offset)

    def _host(self, offset: int) -> str:
        return f"127.{self.lab}.{self.index * BLOCKS_PER_REGION + offset // 256}.{offset % 256}"


def shown_address(loopback: str) -> str:
    """Translate the address a process listens on into the one the API server may hold."""
    first, rest = loopback.split(".", 1)
    if first != "127":
        raise ValueError(f"{loopback} is not a lab address")
    return f"10.{rest}"


def loopback_address(shown: str) -> str:
    """Translate a pod address of the API server into the one its process listens on."""
    if not ipaddress.ip_address(shown).is_private or not shown.startswith("10."):
        raise ValueError(f"{shown} is not a pod address of the lab")
    return f"127.{shown.split('.', 1)[1]}"


def reservation_address(lab: int) -> str:
    """Address that only the process which starts a lab listens on."""
    return f"127.{lab}.255.254"
