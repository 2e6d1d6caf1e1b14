"""A group of nodes is a rack: 18 nodes, and one group for each rack."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fleet.load import load_hardware
from fleet.spec import DEFAULT_HARDWARE
from infra.clouds.contract import RACK_LABEL
from infra.policy_pack.resource import UNKNOWN, Config, Fault, Faults, Policy, Resource

NODES_PER_RACK = load_hardware(DEFAULT_HARDWARE, beside=Path()).nodes_per_rack


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Where a type of node group keeps its size and its labels."""

    size: str
    labels: str | None
    racks: str | None = None  # where a cloud counts in racks instead


@functools.cache
def _groups() -> Mapping[str, _Group]:
    file = Path(__file__).with_name("racks.yaml")
    found: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {kind: _Group(**paths) for kind, paths in found.items()}


def _whole(resource: Resource, config: Config) -> Faults:
    group = _groups().get(resource.type)
    if group is None or (group.labels is not None and _rack(resource) is None):
        return
    count = _number(resource.at(group.racks)) if group.racks else None
    if count is not None and count != 1:
        yield Fault(resource, f"it has {count} racks", "Make one group for each rack")
    wanted = int(config.get("nodesPerRack", NODES_PER_RACK))
    size = _number(resource.at(group.size))
    if size is None or size == wanted:
        return
    what = f"a rack is a group of {wanted} nodes, this one has {size}"
    if size > wanted:
        yield Fault(resource, f"{what}: it spans racks", "Make one group for each rack")
    else:
        yield Fault(resource, what, "Ask for the whole rack; broken nodes stay in the group")


def _one_each(resources: Sequence[Resource], _config: Config) -> Faults:
    first: dict[tuple[str, str], Resource] = {}
    for item in resources:
        rack = _rack(item)
        if rack is None or rack == UNKNOWN:
            continue
        other = first.setdefault((item.type, rack), item)
        if other is not item:
            what = f"{other.name} is rack {rack} too"
            yield Fault(item, what, "Give each rack one group, and each group one rack")


def _rack(resource: Resource) -> str | None:
    """Give the rack whose label a group's nodes carry."""
    group = _groups().get(resource.type)
    labels = resource.at(group.labels) if group and group.labels else None
    found = labels.get(RACK_LABEL) if isinstance(labels, Mapping) else None
    return found if isinstance(found, str) else None


def _number(value: object) -> int | None:
    """Read a size, which one cloud writes as text; None while it is not known."""
    if isinstance(value, int | float):
        return int(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else None


POLICIES = (
    Policy(
        name="whole-racks",
        title="A rack's group has all of its nodes, and none of another",
        one=_whole,
        config={"nodesPerRack": {"type": "integer", "default": NODES_PER_RACK}},
    ),
    Policy(name="one-group-per-rack", title="A rack is one group of nodes", stack=_one_each),
)
