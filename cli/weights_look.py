"""`k3fleet weights verify` and `status`: what is in the buckets, and whether it is right."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from cli.output import print_json, print_line, print_table
from cli.weights_options import FLEET_FILE, KUBECONFIG, Asked, asked, limit_options, places_options
from cli.weights_progress import watching
from cli.wiring import kubeconfigs
from fleet.errors import EXIT_GO, EXIT_NO_GO, WeightsError
from fleet.units import format_bytes
from fleet.weights.manifest import Manifest
from fleet.weights.needs import WeightSet
from infra.weights.nodes import NodeLabels, NodesStatus, nodes_status
from infra.weights.run import Job, run_all
from infra.weights.status import RevisionStatus, revision_status
from infra.weights.store import Store
from infra.weights.verify import Verified, Verifier
from infra.weights.work import Pace, Work
from lab.interrupts import interruptible

SOURCE = "source"
_SHOWN_NODES = 6


@click.command()
@FLEET_FILE
@click.option("--deep", is_flag=True, help="Read every byte. Else sizes and stored checksums only.")
@click.option("--source", is_flag=True, help="Verify the source instead of the regions.")
@limit_options
@places_options
def verify(fleet_file: Path, deep: bool, source: bool, **options: Any) -> int:
    """Hold the regions' buckets against the manifest; exit code 1 when something is wrong.

    \b
    Example:
        k3fleet weights verify fleets/launch.yaml
        k3fleet weights verify fleets/launch.yaml --region us-east --deep
    """
    found = asked(fleet_file, options)
    stores = {SOURCE: found.places.source()}
    if not source:
        stores = {name: found.places.region(name) for name in found.regions}
    with interruptible(), watching(sys.stderr) as watch:
        pace = Pace(found.places.limits.bytes_per_s, found.places.time.clock)
        jobs = {}
        for name, store in stores.items():
            work = Work(found.places.limits.shared_by(len(stores)), pace)
            jobs[name] = Job(work=work, do=partial(_verify, found, name, store, work, deep=deep))
        results = run_all(jobs, watch, found.places.say)
    _print_verified(results, options["output"], fleet_file)
    wrong = any(one.findings for each in results.values() for one in each)
    return EXIT_NO_GO if wrong else EXIT_GO


def _verify(found: Asked, name: str, store: Store, work: Work, *, deep: bool) -> list[Verified]:
    results = []
    for weights in found.needed:
        verifier = Verifier(
            store=store,
            weights=weights,
            pinned=found.places.pinned(weights),
            keeper=None if deep else found.places.keeper(name, store, weights.revision),
            work=work,
        )
        like = None
        if name != SOURCE:
            like = _source_manifest(found, weights)
        results.append(verifier.run(deep=deep, like=like))
    return results


def _source_manifest(found: Asked, weights: Any) -> Manifest | None:
    """Read the source's manifest; a wrong one is told by `verify --source`."""
    try:
        return found.places.source_of(weights).manifest()
    except WeightsError as error:
        found.places.say(f"not compared with the source: {error}")
        return None


def _print_verified(results: Mapping[str, list[Verified]], output: str, fleet_file: Path) -> None:
    if output == "json":
        print_json({name: [asdict(one) for one in each] for name, each in results.items()})
        return
    for name, each in results.items():
        for one in each:
            how = "every byte read" if one.deep else "shallow: sizes and stored checksums"
            result = f"wrong: {len(one.findings)}" if one.findings else "right"
            print_line(f"{name} {one.weights.repo} {one.weights.revision}: {result} ({how})")
            for finding in one.findings:
                print_line(f"  {finding}")
            if {finding.kind for finding in one.findings} - {"extra", "manifest"}:
                mend = "Put the right files there" if name == SOURCE else _mend(fleet_file, name)
                print_line(f"  {mend}.")
            if one.sizes_only:
                count = len(one.sizes_only)
                print_line(f"  only the size was compared of {count}: give --deep")


def _mend(fleet_file: Path, region: str) -> str:
    return f"`k3fleet weights sync {fleet_file} --region {region}` copies these again"


@click.command()
@FLEET_FILE
@KUBECONFIG
@places_options
def status(fleet_file: Path, kubeconfig: Path | None, **options: Any) -> None:
    """Show what each region's bucket, and its nodes, hold of what FLEET_FILE needs.

    Reads no weights. Nodes are asked where a kubeconfig here has the region's cluster.

    \b
    Example:
        k3fleet weights status fleets/launch.yaml
        k3fleet weights status fleets/launch.yaml --kubeconfig us-east.kubeconfig
    """
    found = asked(fleet_file, options)
    stores = {SOURCE: found.places.source()}
    stores |= {name: found.places.region(name) for name in found.regions}
    results = [
        revision_status(name, store, weights, found.places.pinned(weights), needed)
        for weights, needed in found.needed.items()
        for name, store in stores.items()
    ]
    nodes = _nodes(found, NodeLabels(fleet=found.places.fleet, kubeconfigs=kubeconfigs(kubeconfig)))
    told = [(one, nodes.get((one.place, one.weights))) for one in results]
    if options["output"] == "json":
        print_json(
            [{**asdict(one), "nodes": asdict(nodes) if nodes else None} for one, nodes in told]
        )
        return
    columns = ("place", "revision", "state", "files", "bytes", "open uploads", "nodes", "needed by")
    print_table(columns, [_status_row(*one) for one in told])
    for one, where in told:
        if where and where.waiting:
            missing = ", ".join(where.waiting[:_SHOWN_NODES])
            more = len(where.waiting) - _SHOWN_NODES
            others = f" and {more} more" if more > 0 else ""
            print_line(f"{one.place} {one.weights.revision[:12]}: not on {missing}{others}")


def _nodes(found: Asked, read: NodeLabels) -> Mapping[tuple[str, WeightSet], NodesStatus]:
    """Ask the regions' nodes; a region that cannot be asked is said, and is no reason to stop."""
    seen: dict[tuple[str, WeightSet], NodesStatus] = {}
    racks = {one.name: [rack.id for rack in one.racks] for one in found.places.fleet.spec.regions}
    for region in found.regions:
        labels = read.of(region)
        if isinstance(labels, str):
            found.places.say(f"{region}: nodes not asked: {labels}.")
            continue
        for weights in found.needed:
            seen[region, weights] = nodes_status(labels, racks[region], weights)
    return seen


def _status_row(one: RevisionStatus, nodes: NodesStatus | None) -> tuple[str, ...]:
    files = str(one.files) if one.total_files is None else f"{one.files} of {one.total_files}"
    size = format_bytes(one.bytes)
    if one.total_bytes is not None:
        size += f" of {format_bytes(one.total_bytes)}"
    uploads = f"{one.open_uploads}, {format_bytes(one.open_bytes)}" if one.open_uploads else "-"
    needed = ", ".join(one.needed_by)
    held = f"{nodes.ready} of {nodes.total}" if nodes else "-"
    return one.place, one.weights.revision[:12], one.state, files, size, uploads, held, needed
