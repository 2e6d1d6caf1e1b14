"""Check what one value of a fleet file means for another.

Works on the raw data, so that these faults are shown together with wrong types
and unknown keys instead of one run later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from fleet.errors import Problem
from fleet.hardware import Hardware
from fleet.packing import replicas_that_fit
from fleet.region_spec import RackSpec
from fleet.release import Release
from fleet.schema import found_text, suggestion
from fleet.spec import FleetSpec
from fleet.yaml_document import Document, NodePath

MAX_RACKS = 2000  # 144,000 GPUs; `plan` takes two seconds for them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A mapping inside a list of the file, and where it stands."""

    path: NodePath
    data: dict[str, object]


def regions_problems(
    document: Document, hardware: Hardware | None, nodes_per_replica: int
) -> list[Problem]:
    """Find names used twice, names that would collide, and racks asked for too much."""
    regions = list(_entries(document.data, (), "regions"))
    racks = [rack for region in regions for rack in _entries(region.data, region.path, "racks")]
    if len(racks) > MAX_RACKS:
        what = f"{len(racks)} racks, {MAX_RACKS} are the most that a fleet file may hold"
        return [document.problem(("regions",), what, "Split it into several fleet files")]
    problems = _repeated(document, regions, "name", "region name")
    problems += _repeated(document, racks, "id", "rack id")
    problems += _colliding(document, racks)
    for rack in racks:
        problems += _overfull(document, rack, hardware, nodes_per_replica)
    return problems


def section_problems(document: Document, spec: FleetSpec) -> Iterator[Problem]:
    """Find sections of a valid fleet file that do not go together."""
    secrets, scheduling = spec.secrets, spec.scheduling
    if spec.loadtest and secrets.gateway_keys is not None and secrets.loadtest_key is None:
        what = "not set, but the gateways of loadtest ask for keys"
        fix = "Name a Secret with one of them, under the key api-key"
        yield document.problem(("secrets", "loadtest_key"), what, fix)
    yield from _weights_problems(document, spec)
    if spec.backend == "dgd":
        asked = []
        if scheduling.gang == "volcano":
            asked.append(("gang", "gang: volcano"))
        if scheduling.kueue_queue is not None:
            asked.append(("kueue_queue", "kueue_queue"))
        for key, given in asked:
            what = (
                f"{given} is not possible with backend dgd, where Dynamo's operator makes the pods"
            )
            fix = "Use gang: kai or none, or backend: lws"
            yield document.problem(("scheduling", key), what, fix)
    yield from _dns_problems(document, spec)
    yield from _bucket_problems(document, spec)


def _bucket_problems(document: Document, spec: FleetSpec) -> Iterator[Problem]:
    """Find buckets that the global stack makes otherwise than the weights' section names them."""
    shared, weights = spec.global_spec, spec.weights
    if shared is None or shared.weights is None or weights is None:
        return
    made = shared.weights
    if weights.source.endpoint_url is None and weights.source.bucket != made.bucket:
        what = f"weights come from {weights.source.bucket}, and global.weights makes {made.bucket}"
        yield document.problem(("weights", "source", "bucket"), what, "Name one bucket in both")
    places = {made.bucket: shared.region, **{copy.bucket: copy.region for copy in made.copies}}
    for name, store in {"source": weights.source, **weights.regions}.items():
        region = places.get(store.bucket, store.region)
        if store.endpoint_url is None and store.region != region:
            path = ("weights", "source") if name == "source" else ("weights", "regions", name)
            what = f"bucket {store.bucket} is in {store.region} here, and in {region} in global"
            yield document.problem((*path, "region"), what, "Write one region in both")


def _dns_problems(document: Document, spec: FleetSpec) -> Iterator[Problem]:
    """Find gateways of regions that are not in the file."""
    dns = spec.global_spec.dns if spec.global_spec else None
    known = [region.name for region in spec.regions]
    for index, gateway in enumerate(dns.gateways if dns else ()):
        if gateway.region not in known:
            what = f"there is no region {found_text(gateway.region)}"
            path = ("global", "dns", "gateways", index, "region")
            yield document.problem(path, what, suggestion(gateway.region, known))


def _weights_problems(document: Document, spec: FleetSpec) -> Iterator[Problem]:
    """Find buckets of regions that do not exist, and nodes that nobody tells to read them."""
    if spec.weights is None:
        return
    regions = [region.name for region in spec.regions]
    for name in spec.weights.regions:
        if name not in regions:
            what = f"{found_text(name)} is no region of this fleet"
            yield document.problem(("weights", "regions", name), what, suggestion(name, regions))
    if spec.weights.nodes is None:
        return
    if spec.weights_stage is None:
        what = "says how nodes read buckets, but without weights_stage nobody fills the nodes"
        yield document.problem(("weights", "nodes"), what, "Set weights_stage, or leave it out")
    for name in sorted(set(regions) - set(spec.weights.regions)):
        what = f"the nodes of {found_text(name)} have no bucket to read"
        fix = "Give the region one, or leave out weights.nodes: all nodes then ask the hub"
        yield document.problem(("weights", "regions"), what, fix)


def group_problem(hardware: Hardware, release: Release) -> tuple[str, str] | None:
    """Say what is wrong with a prefill/decode ratio that does not fill a full rack."""
    pools = release.disaggregation
    slots = replicas_that_fit(hardware.nodes_per_rack, release.nodes)
    if pools is None or slots % pools.group == 0:
        return None
    sizes = " or ".join(str(size) for size in range(2, slots + 1) if slots % size == 0)
    ratio = f"{pools.prefill.replicas} prefill + {pools.decode.replicas} decode"
    what = f"{ratio} are {pools.group} replicas, which do not divide the {slots} of a rack"
    return what, f"Choose a sum of {sizes}, for example 2 prefill + 1 decode"


def _entries(owner: object, path: NodePath, key: str) -> Iterator[_Entry]:
    items = owner.get(key) if isinstance(owner, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield _Entry(path=(*path, key, index), data=item)


def _repeated(document: Document, entries: list[_Entry], key: str, noun: str) -> list[Problem]:
    first: dict[str, _Entry] = {}
    problems = []
    for entry in entries:
        name = entry.data.get(key)
        if not isinstance(name, str):
            continue
        if name in first:
            lines = [document.line((*at.path, key)) for at in (first[name], entry)]
            what = f"{noun} {name!r} is used twice, on lines {lines[0]} and {lines[1]}"
            problems.append(document.problem((*entry.path, key), what, "Rename one of them"))
        first.setdefault(name, entry)
    return problems


def _colliding(document: Document, racks: list[_Entry]) -> list[Problem]:
    """Refuse a rack named like another rack's replica.

    With racks `a` and `a-1`, the pods of replica `a-1` and the replica objects of
    rack `a-1` would both be called `a-1-0`.
    """
    ids = {rack.data["id"] for rack in racks if isinstance(rack.data.get("id"), str)}
    problems = []
    for rack in racks:
        name = rack.data.get("id")
        if not isinstance(name, str):
            continue
        stem, _, slot = name.rpartition("-")
        if stem in ids and slot.isdecimal():
            what = f"rack id {name!r} reads like replica {slot} of rack {stem!r}"
            fix = f"Rename one, for example {stem}-r{slot}"
            problems.append(document.problem((*rack.path, "id"), what, fix))
    return problems


def _overfull(
    document: Document, rack: _Entry, hardware: Hardware | None, nodes_per_replica: int
) -> list[Problem]:
    healthy = rack.data.get("healthy_nodes", RackSpec.model_fields["healthy_nodes"].default)
    wanted = rack.data.get("replicas")
    if not _is_count(healthy):
        return []
    problems = []
    if hardware and healthy > hardware.nodes_per_rack:
        what = f"{healthy} healthy nodes, but a {hardware.name} has {hardware.nodes_per_rack} nodes"
        fix = f"Give at most {hardware.nodes_per_rack}"
        problems.append(document.problem((*rack.path, "healthy_nodes"), what, fix))
        healthy = hardware.nodes_per_rack
    fits = replicas_that_fit(healthy, nodes_per_replica)
    if _is_count(wanted) and wanted > fits:
        what = (
            f"{wanted} replicas asked, but {healthy} healthy nodes / {nodes_per_replica} nodes "
            f"per replica = {fits}"
        )
        fix = f"Lower replicas to {fits}, or leave it out to use all that fit"
        problems.append(document.problem((*rack.path, "replicas"), what, fix))
    return problems


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
