"""Describe an EKS cluster and its racks: one rack is one capacity block of an UltraServer.

What could not be verified without an account is data here or in
`fleet/clouds/aws_cards.yaml`, never code: the GB300's layout of network
cards, and the zones that sell it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fleet.clouds.aws_cards import cards_of
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
from fleet.schema import Count, FileModel, Positive, Text, found_text, refuse, suggestion

# Instance types that are trays of an NVL72 rack. GB300: named by AWS's own EFA scripts, and in no
# SDK's list yet; so this is a check of spelling, and `instance_types` of a cluster adds to it.
RACK_INSTANCE_TYPES = ("p6e-gb200.36xlarge", "p6e-gb300.36xlarge")
MIN_CONTROL_PLANE_ZONES = 2  # EKS refuses a cluster with one
# The cluster is made without them, so that their versions are the fleet file's.
NEEDED_ADDONS = ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent")
# What EKS calls the logs that its control plane can write.
LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]


_HEX = "(?:[0-9a-f]{8}|[0-9a-f]{17})"  # EC2's short and long ids
AccountId = Annotated[
    str,
    Quoted,
    matching(r"[0-9]{12}", "account id", 'twelve digits in quotes, "123456789012"'),
]
AwsRegion = Annotated[str, matching(r"[a-z]{2}(?:-[a-z]+)+-[0-9]", "AWS region", "us-east-1")]
# A regional zone, us-east-1a, or a Local Zone, us-east-1-dfw-2a.
Zone = Annotated[
    str, matching(r"[a-z]{2}(?:-[a-z]+)+-[0-9](?:-[a-z]+-[0-9]+)?[a-z]", "zone", "us-east-1a")
]
ZoneGroup = Annotated[
    str,
    matching(r"[a-z]{2}(?:-[a-z]+)+-[0-9]-[a-z]+-[0-9]+", "zone group", "us-east-1-dfw-2"),
]
VpcId = Annotated[str, matching(f"vpc-{_HEX}", "VPC id", "vpc-0123456789abcdef0")]
SubnetId = Annotated[str, matching(f"subnet-{_HEX}", "subnet id", "subnet-0123456789abcdef0")]
ReservationId = Annotated[
    str, matching(f"cr-{_HEX}", "id of a capacity reservation", "cr-0123456789abcdef0")
]
IamArn = Annotated[
    str,
    matching(
        r"arn:aws[a-z-]*:iam::[0-9]{12}:(?:role|user)/[\w+=,.@/-]{1,512}",
        "role or user of IAM",
        "arn:aws:iam::123456789012:role/sre",
    ),
]
KeyArn = Annotated[
    str,
    matching(
        r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[0-9a-zA-Z-]{1,64}",
        "key of KMS",
        "arn:aws:kms:us-east-1:123456789012:key/KEY",
    ),
]
# p6e-gb300.36xlarge; free text otherwise, because no SDK lists all types that are sold.
InstanceType = Annotated[
    str, matching(r"[a-z][a-z0-9-]*\.[a-z0-9-]+", "instance type", "p6e-gb300.36xlarge")
]
AddonVersion = Annotated[
    str, matching(r"v[0-9][\w.+-]*", "version of an add-on", "v1.20.4-eksbuild.2")
]
AmiRelease = Annotated[
    str, matching(r"[0-9]\.[0-9]{2}\.[0-9]+-[0-9]{8}", "AMI release", "1.34.2-20251112")
]


class NewNetwork(FileModel):
    """A VPC to be made. Each subnet has its own line, so that adding one renumbers none."""

    cidr: Cidr = Field(description="the whole VPC, for example 10.20.0.0/16")
    control_plane: dict[Zone, Cidr] = Field(description="two or more regional zones: networks")
    public: dict[Zone, Cidr] = Field(description="regional zones: networks of the NAT gateways")
    nodes: dict[Zone, Cidr] = Field(description="the zones of the racks: networks")

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        """Refuse subnets outside of the VPC, or over each other."""
        parts = [
            (f"{kind}.{zone}", cidr)
            for kind in ("control_plane", "public", "nodes")
            for zone, cidr in getattr(self, kind).items()
        ]
        check_inside(self.cidr, parts)
        check_apart(parts)
        return self


class GivenNetwork(FileModel):
    """A VPC that somebody else made, with its routes, gateways and endpoints."""

    vpc: VpcId = Field(description="vpc-…")
    control_plane: dict[Zone, SubnetId] = Field(description="two or more regional zones: subnets")
    nodes: dict[Zone, SubnetId] = Field(description="the zones of the racks: subnets")


class SystemNodes(FileModel):
    """The nodes for everything but engines: frontends, gateways, operators, monitoring."""

    # Arm like the racks' Grace processors: one set of images.
    instance_type: InstanceType = "m7g.4xlarge"
    count: SystemCount = 3
    disk_gib: DiskGib = 200


class Endpoint(FileModel):
    """From where the API server can be reached. Nodes use the private side in any case."""

    public_from: tuple[CallerCidr, ...] = ()  # empty: from inside of the VPC only


class Cluster(FileModel):
    """One EKS cluster."""

    account: AccountId = Field(description='the account, "123456789012"')
    region: AwsRegion = Field(description="the AWS region, for example us-east-1")
    # One of the two.
    network: NewNetwork | None = None
    given_network: GivenNetwork | None = None
    # The groups of Local Zones that the account has opted into; `k3fleet capacity` can do it.
    zone_groups: tuple[ZoneGroup, ...] = ()
    endpoint: Endpoint = Endpoint()
    # Who may administrate the cluster, apart from who made it.
    admins: tuple[IamArn, ...] = Field(min_length=1, description="roles or users of IAM")
    secrets_key: KeyArn | None = None  # encrypts Secrets; None: one is made
    disk_key: KeyArn | None = None  # encrypts the nodes' root disks; None: the account's own
    logs: tuple[LogType, ...] = ("api", "audit", "authenticator")
    log_days: Annotated[Positive, Field(le=3653)] = 90  # 3653: CloudWatch's most
    system_nodes: SystemNodes = SystemNodes()
    addons: dict[Text, AddonVersion] = Field(
        description="add-ons with pinned versions: `aws eks describe-addon-versions` lists them"
    )
    instance_types: tuple[InstanceType, ...] = ()  # that racks may have, beside those known here

    @model_validator(mode="after")
    def _one_network(self) -> Self:
        if (self.network is None) == (self.given_network is None):
            raise refuse("expected one network", "Give either network or given_network")
        return self

    @property
    def used_network(self) -> tuple[NewNetwork | GivenNetwork, str]:
        """The network, and the key under which the file has it."""
        if self.network:
            return self.network, "network"
        assert self.given_network is not None  # noqa: S101 - `_one_network` has seen to it
        return self.given_network, "given_network"


class Rack(FileModel):
    """One UltraServer: a capacity block with its reservation."""

    reservation: ReservationId = Field(description="the block's capacity reservation, cr-…")
    zone: Zone = Field(description="the block's zone, for example us-east-1-dfw-2a")
    instance_type: InstanceType = "p6e-gb300.36xlarge"
    # How many nodes to start at first; later the number is the drain's and the reservation's.
    # 0 for a block that is not active yet: EKS would report launch errors until it is.
    initial_nodes: Annotated[Count, Field(le=18)] = 18  # an UltraServer x72 has 18 instances
    disk_gib: DiskGib = 500  # root; weights go to the NVMe
    # Of the nodes' AMI. Per rack, so that a new one comes to one rack at a time. None: the newest
    # at the time when the rack is made.
    ami_release: AmiRelease | None = None


def _faults(cluster: Cluster, racks: Mapping[int, Rack]) -> Iterator[Fault]:
    yield from _zone_faults(cluster)
    if missing := [name for name in NEEDED_ADDONS if name not in cluster.addons]:
        what = f"{', '.join(missing)} missing: without them no pod of a cluster gets to run"
        yield Fault(("cluster", "addons"), what, "Add each with a version")
    for arn in sorted({arn for arn in cluster.admins if cluster.admins.count(arn) > 1}):
        yield Fault(("cluster", "admins"), f"{found_text(arn)} is given twice", "Remove one")
    for name in ("secrets_key", "disk_key"):
        key = getattr(cluster, name)
        if key is not None and (region := key.split(":")[3]) != cluster.region:
            what = f"a key of {region}, and AWS takes only keys of its own region here"
            yield Fault(("cluster", name), what, f"Give one of {cluster.region}, or none")
    for arn in cluster.admins:
        if arn.split(":")[4] != cluster.account:
            what = f"{found_text(arn)} is of another account than {cluster.account}"
            fix = "Name a role of the account, which others may assume"
            yield Fault(("cluster", "admins"), what, fix)
    for index, rack in racks.items():
        path = ("racks", index, "capacity")
        yield from _place_faults(cluster, rack, path)
        if rack.instance_type not in (*RACK_INSTANCE_TYPES, *cluster.instance_types):
            what = f"{found_text(rack.instance_type)} is not known as a tray of a rack"
            known = suggestion(rack.instance_type, RACK_INSTANCE_TYPES)
            fix = f"{known}; or allow it: cluster.instance_types"
            yield Fault((*path, "instance_type"), what, fix)


def _zone_faults(cluster: Cluster) -> Iterator[Fault]:
    network, key = cluster.used_network
    path = ("cluster", key)
    region = cluster.region
    regional = {zone for zone in network.control_plane if zone[:-1] == region}
    for zone in sorted(set(network.control_plane) - regional):
        what = f"{zone} is not a regional zone of {region}"
        fix = f"Give zones like {region}a; Local Zones are for nodes only"
        yield Fault((*path, "control_plane", zone), what, fix)
    if len(regional) < MIN_CONTROL_PLANE_ZONES:
        what = f"regional zones of {region}: {len(regional)}; EKS wants two at least"
        fix = f"Give two, for example {region}a and {region}b"
        yield Fault((*path, "control_plane"), what, fix)
    for zone in sorted(network.nodes):
        if not zone.startswith(region):
            fix = f"Give a zone of {region}, or correct cluster.region"
            yield Fault((*path, "nodes", zone), f"{zone} is not a zone of {region}", fix)
        elif zone[:-1] != region and zone[:-1] not in cluster.zone_groups:
            what = f"{zone} is a Local Zone, and its zone group is not named"
            fix = f"Opt the account in to {zone[:-1]}, then add it to cluster.zone_groups"
            yield Fault((*path, "nodes", zone), what, fix)
    if isinstance(network, NewNetwork) and not regional & set(network.public):
        what = "no zone of the control plane, so that nothing would reach the internet"
        yield Fault((*path, "public"), what, "Give a network for each zone of control_plane")


def _place_faults(cluster: Cluster, rack: Rack, path: tuple[str | int, ...]) -> Iterator[Fault]:
    network, key = cluster.used_network
    if rack.zone not in network.nodes:
        what = f"cluster.{key}.nodes has no subnet in {rack.zone}"
        fix = suggestion(rack.zone, network.nodes) if network.nodes else f"Add {rack.zone} there"
        yield Fault((*path, "zone"), what, fix)


def _notes(_cluster: Cluster, racks: Mapping[int, Rack]) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for index, rack in racks.items():
        first.setdefault(rack.instance_type, index)
    for instance_type, index in first.items():
        cards = cards_of(instance_type)
        if not cards.verified:
            used = ", ".join(map(str, (0, *cards.efa_cards)))
            what = f"no public source gives the network cards of {instance_type}; {used} are used"
            fix = "Compare vpc.amazonaws.com/efa on the first node (docs/clouds.md)"
            yield Fault(("racks", index, "capacity", "instance_type"), what, fix)


SCHEMA = CloudSchema(
    cluster=Cluster,
    rack=Rack,
    needs_capacity=True,
    exclusive="reservation",
    name_max=100,  # EKS
    faults=_faults,
    notes=_notes,
)
