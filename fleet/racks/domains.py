"""Say which rack each node belongs to, from what its cloud tells about the hardware.

Every source names what one NVLink rack has in common; the label of GPU feature discovery is the
last one, since it is absent while Fabric Manager starts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from fleet.errors import ConfigError
from fleet.racks.seen import CLIQUE_LABEL, NodeSeen, natural
from fleet.racks.wording import named

_OCID_SHORT = 11  # characters of an OCID that Oracle's labeler writes


def _same(name: str) -> str:
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a node's hardware domain is read, and how a longer name for it is shortened."""

    name: str
    label: str = ""  # "": the cloud's API is asked
    tray_label: str = ""
    read: Callable[[str], str] = _same
    shorten: Callable[[str], str] = _same


# The order is the order in which they are trusted. Labels: the documents of each cloud, as
# collected by NVIDIA's topograph (docs/reference/node-labels.md).
CAPACITY_BLOCK = Source(name="aws-capacity-block")
CLIQUE = Source(name="clique", label=CLIQUE_LABEL, read=lambda value: value.partition(".")[0])
SOURCES: tuple[Source, ...] = (
    CAPACITY_BLOCK,
    Source(name="gcp-subblock", label="cloud.google.com/gce-topology-subblock"),
    Source(
        name="oci-memory-fabric",
        label="oci.oraclecloud.com/host.gpu_memory_fabric_id",
        tray_label="oci.oraclecloud.com/host.tray_index",
        shorten=lambda name: name[-_OCID_SHORT:],
    ),
    Source(name="coreweave-nvlink", label="ds.coreweave.com/nvlink.domain"),
    Source(name="topograph", label="accelerator.topograph.run/domain"),
    CLIQUE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The labels that one node is to get."""

    node: str
    domain: str
    rack: str
    tray: int | None  # None: nobody tells
    rack_now: str
    tray_now: int | None

    @property
    def changes(self) -> bool:
        """Whether anything is to be written."""
        return self.rack != self.rack_now or (self.tray is not None and self.tray != self.tray_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person, and the fleet file, say about racks."""

    racks: Mapping[str, frozenset[str]]  # rack id -> names that its `capacity` holds
    given: Mapping[str, str]  # domain -> rack id
    nodes_per_rack: int
    relabel: bool = False  # a node may get another rack than it carries


def own_label(label: str) -> Source:
    """Give the source of a label that the cluster's owner tells racks apart by."""
    return Source(name="fleet-file", label=label)


def choose_source(
    sources: Collection[Source],
    nodes: Collection[NodeSeen],
    told: Mapping[str, str],
    wanted: str | None,
) -> Source:
    """Give the first source that every node has, or the one that is wanted and some have.

    `told` is what the cloud's API says: node -> domain.
    """
    known = [source.name for source in sources]
    if wanted is not None and wanted not in known:
        raise ConfigError(f"--source {wanted}: is not known. Use one of: {', '.join(known)}.")
    silent: dict[str, list[str]] = {}
    for source in sources:
        if wanted is not None and source.name != wanted:
            continue
        silent[source.name] = [n.name for n in nodes if not domain_of(n, source, told)]
        if not silent[source.name] or (wanted and len(silent[source.name]) < len(nodes)):
            return source
    name = min(silent, key=lambda source: len(silent[source]))
    without = named(silent[name])
    raise ConfigError(
        f"racks: no source tells the rack of every node; {name} does not for {without}. "
        "Wait until the node is up (clique labels come with Fabric Manager), or choose one with "
        "--source."
    )


def domain_of(node: NodeSeen, source: Source, told: Mapping[str, str]) -> str:
    """Give a node's hardware domain, or nothing."""
    if source is CAPACITY_BLOCK:
        return told.get(node.name, "")
    return source.read(node.labels.get(source.label, ""))


def plan_labels(
    nodes: Collection[NodeSeen],
    source: Source,
    told: Mapping[str, str],
    trays: Mapping[str, int],
    asked: Asked,
) -> tuple[Change, ...]:
    """Say what each node gets; raise ConfigError for what would split, merge or move a rack.

    Nodes of which the source tells nothing are left out.
    """
    domains: dict[str, list[NodeSeen]] = defaultdict(list)
    for node in nodes:
        if domain := domain_of(node, source, told):
            domains[domain].append(node)
    if stray := sorted(asked.given.keys() - domains.keys()):
        raise ConfigError(
            f"--map {stray[0]}: no node is in it. {source.name} tells: {named(sorted(domains))}."
        )
    _require_whole(domains)
    racks = {name: _rack_of(name, own, source, asked) for name, own in sorted(domains.items())}
    _require_one_each(racks, domains, asked)
    changes = [
        Change(
            node=node.name,
            domain=domain,
            rack=racks[domain],
            tray=_tray(node, source, trays),
            rack_now=node.rack,
            tray_now=node.tray,
        )
        for domain, own in domains.items()
        for node in own
    ]
    moved = [c for c in changes if c.rack_now not in ("", c.rack)]
    if moved and not asked.relabel:
        first = moved[0]
        raise ConfigError(
            f"{first.node}: carries rack {first.rack_now} and would get {first.rack} "
            f"({len(moved)} such nodes). Drain the rack, then say --relabel; or correct --map."
        )
    return tuple(sorted(changes, key=lambda c: (natural(c.rack), natural(c.node))))


def _require_whole(domains: Mapping[str, list[NodeSeen]]) -> None:
    """Refuse domains that GPU feature discovery contradicts."""
    homes: dict[str, str] = {}
    for domain, nodes in sorted(domains.items()):
        fabrics = sorted({node.domain for node in nodes if node.domain})
        if len(fabrics) > 1:
            raise ConfigError(
                f"{domain}: holds {len(fabrics)} NVLink fabrics ({named(fabrics)}), so it is no "
                "single rack, and one label would merge them. Use --source clique."
            )
        for fabric in fabrics:
            if homes.setdefault(fabric, domain) != domain:
                raise ConfigError(
                    f"NVLink fabric {fabric}: is in {homes[fabric]} and in {domain}, so labels "
                    "would split a rack. Use --source clique."
                )


def _rack_of(domain: str, nodes: list[NodeSeen], source: Source, asked: Asked) -> str:
    """Find the rack of a domain: as given, by the fleet file's capacity, by labels there are."""
    if domain in asked.given:
        return asked.given[domain]
    by_capacity = [
        rack
        for rack, names in asked.racks.items()
        if any(domain in (name, source.shorten(name)) for name in names)
    ]
    carried = sorted({node.rack for node in nodes if node.rack})
    found = by_capacity or carried
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f"{domain}: could be rack {' or '.join(found)}. Say which: --map {domain}={found[0]}."
        )
    raise ConfigError(
        f"{domain}: {len(nodes)} nodes ({named([node.name for node in nodes])}), and nothing says "
        f"which rack it is. Say it: --map {domain}=RACK, with one of: {', '.join(asked.racks)}."
    )


def _require_one_each(
    racks: Mapping[str, str], domains: Mapping[str, list[NodeSeen]], asked: Asked
) -> None:
    homes: dict[str, str] = {}
    for domain, rack in racks.items():
        if rack not in asked.racks:
            known = ", ".join(asked.racks)
            raise ConfigError(
                f"{domain}: rack {rack} is not in the fleet file's region. Use one of: {known}."
            )
        if homes.setdefault(rack, domain) != domain:
            raise ConfigError(
                f"rack {rack}: would be {homes[rack]} and {domain}, two racks in one. "
                "Correct --map, or the capacity in the fleet file."
            )
        if len(domains[domain]) > asked.nodes_per_rack:
            raise ConfigError(
                f"{domain}: {len(domains[domain])} nodes, a rack has {asked.nodes_per_rack}. "
                "It is no single rack: choose another --source."
            )


def _tray(node: NodeSeen, source: Source, trays: Mapping[str, int]) -> int | None:
    text = node.labels.get(source.tray_label, "") if source.tray_label else ""
    if text.isascii() and text.isdigit() and len(text) <= len("999"):
        return int(text)
    return trays.get(node.name)
