"""Check whether the clusters of a fleet file can be made: what `config lint` and programs ask.

A fleet file can be planned, rendered and rehearsed without a word about clusters;
what is asked here is asked only when one is to be made.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleet.clouds import SCHEMAS
from fleet.clouds.part import CloudSchema, Fault
from fleet.errors import ConfigError, Problem
from fleet.load import Fleet, load_fleet
from fleet.region_spec import RegionSpec
from fleet.schema import FileModel
from fleet.spec import FleetSpec
from fleet.yaml_document import Document, read_document


def load_provisionable(path: Path, region: str | None = None) -> Fleet:
    """Load a fleet file whose clusters, or the one of a region, can be made.

    Raises ConfigError with every problem found.
    """
    fleet = load_fleet(path)
    problems = clusters_problems(read_document(path), fleet, region)
    if problems:
        raise ConfigError.of(problems)
    return fleet


def clusters_problems(document: Document, fleet: Fleet, only: str | None = None) -> list[Problem]:
    """Find what keeps the clusters of a valid fleet from being made; `only`: of one region."""
    problems = [
        document.problem(("regions", index, *fault.path), fault.what, fault.fix)
        for index, region in enumerate(fleet.spec.regions)
        if only in (None, region.name)
        for fault in _region_faults(fleet.spec, region)
    ]
    return [*problems, *_shared(document, fleet, only)]


def clusters_notes(document: Document, fleet: Fleet) -> list[Problem]:
    """Tell what is to be made as nobody could check yet, in a fleet without problems."""
    return [
        document.problem(("regions", index, *note.path), note.what, note.fix)
        for index, region in enumerate(fleet.spec.regions)
        if region.cluster is not None
        for note in SCHEMAS[region.cloud].found_notes(region.cluster, _capacities(region))
    ]


def _capacities(region: RegionSpec) -> dict[int, FileModel]:
    """Give what racks say of their capacity, by place in the list."""
    return {i: rack.capacity for i, rack in enumerate(region.racks) if rack.capacity}


def _region_faults(fleet: FleetSpec, region: RegionSpec) -> Iterator[Fault]:
    schema = SCHEMAS[region.cloud]
    name = f"{fleet.name}-{region.name}"
    if len(name) > schema.name_max:
        what = f"the cluster would be called {name}, {len(name)} characters"
        fix = f"{region.cloud} allows {schema.name_max}: shorten the fleet's or the region's name"
        yield Fault(("name",), what, fix)
    yield from _rack_faults(schema, region)
    yield from _taken_ids(schema.system_pool, region)
    yield from _version_faults(fleet.kubernetes, region)
    if region.cluster is not None:
        yield from schema.found_faults(region.cluster, _capacities(region))


def _version_faults(kubernetes: str, region: RegionSpec) -> Iterator[Fault]:
    """Hold a cloud that wants a whole release to the minor version that all clusters have."""
    release = getattr(region.cluster, "version", None)
    if release is not None and not release.removeprefix("v").startswith(f"{kubernetes}."):
        what = f"{release} is no release of Kubernetes {kubernetes}, which the fleet file names"
        yield Fault(("cluster", "version"), what, "Correct it, or kubernetes")


def _rack_faults(schema: CloudSchema[Any, Any], region: RegionSpec) -> Iterator[Fault]:
    if region.cluster is None and not region.is_there:
        what = f"cloud {region.cloud}, but no cluster says what to make there"
        yield Fault((), what, "Add cluster (docs/clouds.md), or use cloud: existing")
    elif schema.needs_capacity:
        for index, rack in enumerate(region.racks):
            if rack.capacity is None:
                what = f"rack {rack.id} has no capacity, so that nothing could run on it"
                fix = f"Add capacity with what {region.cloud} sold for it (docs/clouds.md)"
                yield Fault(("racks", index), what, fix)


def _taken_ids(pool: str | None, region: RegionSpec) -> Iterator[Fault]:
    """Find racks whose pool would be called like that of the system nodes."""
    if region.cluster is None:
        return
    for index, rack in enumerate(region.racks):
        if rack.id == pool:
            what = f"{rack.id} is what {region.cloud} is told to call the pool of the system nodes"
            yield Fault(("racks", index, "id"), what, "Give the rack another id")


def _shared(document: Document, fleet: Fleet, only: str | None) -> Iterator[Problem]:
    """Find racks of any region that name the same thing of their cloud."""
    first: dict[tuple[str, object], str] = {}
    for index, region in enumerate(fleet.spec.regions):
        key = SCHEMAS[region.cloud].exclusive
        if key is None:
            continue
        for place, rack in enumerate(region.racks):
            value = getattr(rack.capacity, key, None)
            if value is None:
                continue
            other = first.setdefault((region.cloud, value), rack.id)
            if other != rack.id and only in (None, region.name):
                path = ("regions", index, "racks", place, "capacity", key)
                what = f"{key} {value} is that of rack {other} too"
                yield document.problem(path, what, "Give each rack its own")
