"""Describe a GKE cluster and its racks: one rack is one sub-block of a reservation of A4X Max.

Names and defaults come from Google's public blueprint for `a4x-maxgpu-4g-metal`
(GoogleCloudPlatform/cluster-toolkit, examples/gke-a4x-max-bm). What could not be
verified without an account is a key here, never code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fleet.clouds.fields import (
    CallerCidr,
    Cidr,
    DiskGib,
    Quoted,
    SystemCount,
    check_apart,
    matching,
)
from fleet.clouds.part import CloudSchema, Fault
from fleet.schema import FileModel, Positive, Text, found_text

ProjectId = Annotated[str, matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "project id", "k3-production")]
Zone = Annotated[str, matching(r"[a-z]+-[a-z]+[0-9]+-[a-z]", "zone", "us-central1-b")]
# The whole release, because nodes and control plane stay on it until somebody decides.
Version = Annotated[
    str,
    Quoted,
    matching(r"1\.[0-9]+\.[0-9]+-gke\.[0-9]+", "GKE release", "1.35.3-gke.1318000"),
]
KmsKey = Annotated[
    str,
    matching(
        r"projects/[^/\s]+/locations/[^/\s]+/keyRings/[^/\s]+/cryptoKeys/[^/\s]+",
        "key of Cloud KMS",
        "projects/P/locations/us-central1/keyRings/R/cryptoKeys/K",
    ),
]
Time = Annotated[
    str,
    matching(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", "time", "2026-12-01T00:00:00Z"
    ),
]
Name = Annotated[str, matching(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", "name", "k3-reservation")]


class Network(FileModel):
    """The networks that are made. Names of machines stay; sizes cannot shrink later."""

    nodes: Cidr = "10.64.0.0/20"
    pods: Cidr = "10.68.0.0/14"
    services: Cidr = "10.72.0.0/20"
    control_plane: Cidr = "10.73.0.0/28"  # GKE takes a /28 for its side of a private cluster
    second: Cidr = "10.74.0.0/18"  # of the second network card (IDPF) of an A4X Max node

    @model_validator(mode="after")
    def _apart(self) -> Self:
        check_apart((name, getattr(self, name)) for name in type(self).model_fields)
        return self


class SystemNodes(FileModel):
    """The nodes for everything but engines."""

    machine_type: Text = "c4a-standard-16"  # Arm, like the racks' Grace processors
    count: SystemCount = 3
    disk_gib: DiskGib = 200


class Cluster(FileModel):
    """One GKE cluster, in the zone of its racks."""

    project: ProjectId = Field(description="the project's id; credentials of another one fail")
    zone: Zone = Field(description="the zone of the racks, for example us-central1-b")
    version: Version = Field(description="the whole GKE release, 1.35.3-gke.1318000")
    network: Network = Network()
    # Who may reach the API server apart from what is inside of the network; it is private.
    allow_from: tuple[CallerCidr, ...] = ()
    # From when on minor and node upgrades are held back; until the end of the version's support.
    hold_upgrades_from: Time = Field(description="when the hold begins, 2026-12-01T00:00:00Z")
    secrets_key: KmsKey | None = None  # encrypts Secrets in etcd; None: with Google's own key
    disk_key: KmsKey | None = None  # encrypts the nodes' root disks; None: with Google's own key
    system_nodes: SystemNodes = SystemNodes()
    machine_type: Text = "a4x-maxgpu-4g-metal"
    accelerator: Text = "nvidia-gb300"
    # Which GPU driver Google puts on the nodes; DEFAULT and LATEST follow the GKE release.
    driver: Literal["DEFAULT", "LATEST"] = "DEFAULT"
    # Google's device plugin. False where the GPU operator is asked for, which brings its own.
    google_device_plugin: bool = True
    # A RoCE network for bare metal is tied to its zone, and brings its one subnet itself.
    roce_profile: Text = "vpc-roce-metal"
    # As topology of one rack. Unverified: whether a pool smaller than 18 nodes may ask for it.
    topology: Annotated[str, matching(r"1x[0-9]+", "topology", "1x72")] = "1x72"
    # 12 TB of a node's own disks. Unverified: their number; None: as the machine type brings them.
    local_ssds: Annotated[Positive, Field(le=32)] | None = None

    @property
    def region(self) -> str:
        """The region of the zone: us-central1 of us-central1-b."""
        return self.zone.rpartition("-")[0]


class Rack(FileModel):
    """Where in a reservation the rack is."""

    reservation: Name = Field(description="the reservation's name, in the cluster's project")
    block: Name = Field(description="the block's name in the reservation")
    # A sub-block is a rack. Unverified with GKE: None leaves the choice in the block to Google.
    sub_block: Name | None = None
    disk_gib: DiskGib = 200  # root, hyperdisk-balanced; weights go to the node's own disks

    @property
    def path(self) -> str:
        """Name the place as a node pool's reservation affinity wants it."""
        path = f"{self.reservation}/reservationBlocks/{self.block}"
        return f"{path}/reservationSubBlocks/{self.sub_block}" if self.sub_block else path


def _faults(cluster: Cluster, racks: Mapping[int, Rack]) -> Iterator[Fault]:
    for name in ("secrets_key", "disk_key"):
        key = getattr(cluster, name)
        if key and key.split("/")[3] not in (cluster.region, "global"):
            what = f"{found_text(key)} is not in {cluster.region}"
            yield Fault(("cluster", name), what, "Name a key of the cluster's own region")
    seen: dict[str, int] = {}
    for index, rack in racks.items():
        if rack.sub_block is None:
            continue
        if rack.path in seen:
            what = f"sub-block {rack.sub_block!r} is that of racks[{seen[rack.path]}] too"
            fix = "Give each rack a sub-block of its own"
            yield Fault(("racks", index, "capacity", "sub_block"), what, fix)
        seen.setdefault(rack.path, index)


SCHEMA = CloudSchema(
    cluster=Cluster,
    rack=Rack,
    needs_capacity=True,
    system_pool="system",
    name_max=40,  # GKE
    faults=_faults,
)
