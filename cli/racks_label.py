"""`k3fleet racks label`: write on nodes which rack, and which tray, they are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import output_option, print_json, print_line, print_table
from cli.racks_where import FLEET_FILE, places, where_options
from fleet.clouds.existing import Cluster as ExistingCluster
from fleet.errors import EXIT_GO, BusyError, ConfigError
from fleet.racks.domains import (
    CAPACITY_BLOCK,
    SOURCES,
    Asked,
    Change,
    Source,
    choose_source,
    domain_of,
    own_label,
    plan_labels,
)
from fleet.racks.seen import RACK_LABEL, TRAY_LABEL
from fleet.racks.wording import named
from fleet.region_spec import RackSpec, RegionSpec
from infra.racks.aws_topology import ask_aws
from infra.racks.reader import read_nodes, read_racks
from infra.racks.reports import collect
from infra.racks.touch import label as write_labels
from lab.racks import RackPlaces


@click.command()
@FLEET_FILE
@click.option("--region", metavar="REGION", required=True, help="The region whose nodes get them.")
@click.option(
    "--map",
    "mapping",
    metavar="DOMAIN=RACK",
    multiple=True,
    help="Which rack a hardware domain is, where the fleet file's capacity does not say it.",
)
@click.option(
    "--source",
    metavar="NAME",
    help=f"Where the domain is read: {', '.join(s.name for s in SOURCES)}, or fleet-file (its "
    "cluster.rack_label). Default: the first that every node has.",
)
@click.option("--relabel", is_flag=True, help="Also nodes that carry another rack, once drained.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@YES
@where_options
@output_option
def label(fleet_file: Path, region: str, mapping: tuple[str, ...], **options: Any) -> int:
    """Label nodes with their rack and tray, from what the cloud tells of its hardware.

    Shows every change first. Refuses to split a rack, to merge two, and to move a node to another
    rack unless told so.

    \b
    Example:
        k3fleet racks label fleets/demo.yaml --region us-east --dry-run
        k3fleet racks label fleets/demo.yaml --region us-east --map DH4-016-US-EAST-02A=use1-r01
    """
    found = places(fleet_file, options)
    spec = next((one for one in found.fleet.spec.regions if one.name == region), None)
    if spec is None:
        raise ConfigError(f"--region {region}: not in the fleet file: {', '.join(found.plans)}.")
    given = dict(_pairs(mapping))
    cluster = found.clusters[region]
    nodes = read_nodes(cluster)
    if not nodes:
        raise ConfigError(f"{region}: its cluster has no node with GPUs. Start its racks first.")
    told, aliases = ask_aws(nodes, time.sleep) if _asks_aws(options["source"]) else ({}, {})
    source = choose_source(_sources(spec), nodes, told, options["source"])
    trays = {
        name: report.fabric.tray
        for name, report in collect(cluster, None).reports.items()
        if report.fabric is not None and report.fabric.tray is not None
    }
    asked = Asked(
        racks={rack.id: _names(rack, aliases) for rack in spec.racks},
        given=given,
        nodes_per_rack=found.fleet.hardware.nodes_per_rack,
        relabel=options["relabel"],
    )
    changes = plan_labels(nodes, source, told, trays, asked)
    silent = [node.name for node in nodes if not domain_of(node, source, told)]
    _write(found, region, changes, silent, source, options)
    return EXIT_GO


def _write(
    found: RackPlaces,
    region: str,
    changes: tuple[Change, ...],
    silent: list[str],
    source: Source,
    options: Mapping[str, Any],
) -> None:
    todo = [change for change in changes if change.changes]
    _tell(todo, len(changes) - len(todo), silent, source, options)
    if not todo or options["dry_run"]:
        return
    confirm(yes=options["yes"], what=f"Label {len(todo)} nodes?")
    cluster = found.clusters[region]
    if moved := [change for change in todo if change.rack_now not in ("", change.rack)]:
        _require_empty(found, region, moved)
    _require_unchanged({node.name: node.rack for node in read_nodes(cluster)}, todo)
    for change in todo:
        labels = {RACK_LABEL: change.rack}
        if change.tray is not None:
            labels[TRAY_LABEL] = str(change.tray)
        write_labels(cluster, change.node, labels)
    click.echo(f"{len(todo)} nodes labelled", err=True)


def _tell(
    todo: list[Change],
    same: int,
    silent: list[str],
    source: Source,
    options: Mapping[str, Any],
) -> None:
    if options["output"] == "json":
        changes = [asdict(change) for change in todo]
        told = {"source": source.name, "changes": changes, "unchanged": same, "silent": silent}
        print_json({**told, "dry_run": options["dry_run"]})
        return
    if todo:
        rows = [
            (c.node, c.domain, c.rack_now or "-", c.rack, "-" if c.tray is None else c.tray)
            for c in todo
        ]
        print_table(("node", source.name, "rack now", "rack", "tray"), rows)
    print_line(f"{len(todo)} nodes change, {same} stay as they are")
    if silent:
        print_line(f"left alone, {source.name} says nothing of them: {named(silent)}")


def _require_empty(found: RackPlaces, region: str, moved: list[Change]) -> None:
    """Refuse to move a node from under a replica: its pods are pinned to the rack's label."""
    found.require_no_rollout(region)
    names = {change.node for change in moved}
    seats = [seat for rack in read_racks(found.clusters[region]).racks for seat in rack.seats]
    if used := [seat for seat in seats if seat.node in names]:
        raise ConfigError(
            f"{used[0].node}: {used[0].pod} is on it. Drain it first: k3fleet racks drain."
        )


def _require_unchanged(now: Mapping[str, str], todo: list[Change]) -> None:
    for change in todo:
        if now.get(change.node) != change.rack_now:
            raise BusyError(
                f"{change.node}: somebody else has labelled it just now. Look again: "
                "k3fleet racks label --dry-run."
            )


def _pairs(mapping: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for text in mapping:
        domain, equals, rack = text.rpartition("=")
        if not equals or not domain or not rack:
            raise ConfigError(f"--map {text}: expected DOMAIN=RACK, for example fabric-7=use1-r01.")
        if seen.setdefault(domain, rack) != rack:
            raise ConfigError(f"--map {domain}: is given as {seen[domain]} and as {rack}.")
        yield domain, rack


def _asks_aws(source: str | None) -> bool:
    return source in (None, CAPACITY_BLOCK.name)


def _sources(spec: RegionSpec) -> tuple[Source, ...]:
    """Put the label of the fleet file first, where its owner has named one."""
    own = spec.cluster.rack_label if isinstance(spec.cluster, ExistingCluster) else None
    return SOURCES if own is None else (own_label(own), *SOURCES)


def _names(rack: RackSpec, aliases: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Give every name that a rack's capacity holds, and the blocks whose reservation it holds."""
    if rack.capacity is None:
        return frozenset()
    own = frozenset(v for v in rack.capacity.model_dump().values() if isinstance(v, str))
    return own | {block for block, ids in aliases.items() if own.intersection(ids)}
