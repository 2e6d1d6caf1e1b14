"""Describe what one cloud adds to a fleet file: its `cluster` and its racks' `capacity`.

A region's `cloud` decides how both are typed. The shared region and rack know
neither key of any cloud; they hold what the cloud's own models made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from fleet.schema import FileModel, explained
from fleet.yaml_document import NodePath

ClusterT = TypeVar("ClusterT", bound=FileModel)
RackT = TypeVar("RackT", bound=FileModel)


class Fault(NamedTuple):
    """What cannot be provisioned: where in the region, what, and what to do."""

    path: NodePath  # from the region on: ("cluster", "zones") or ("racks", 2, "capacity")
    what: str
    fix: str


class Offer(NamedTuple):
    """A `cluster` or `capacity` as the file has it, with the cloud that types it."""

    cloud: object
    data: object


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSchema(Generic[ClusterT, RackT]):
    """One cloud's part of the fleet file."""

    cluster: type[ClusterT]
    rack: type[RackT]
    # Whether a rack must say what it runs on before a cluster can be made.
    needs_capacity: bool
    # The key of a capacity that no two racks of a fleet may share, for example their reservation.
    exclusive: str | None = None
    # Name of the system nodes' pool, where racks' pools are named after their racks.
    system_pool: str | None = None
    name_max: int = 63  # characters that the cloud allows in a cluster's name, FLEET-REGION
    # What is wrong with a valid cluster and its racks' capacities (by place in the list) together.
    faults: Callable[[ClusterT, Mapping[int, RackT]], Iterator[Fault]]

    # What is to be made as nobody could check yet; told, and no reason to refuse.
    notes: Callable[[ClusterT, Mapping[int, RackT]], Iterator[Fault]] = lambda _c, _r: iter(())

    def found_notes(self, cluster: Any, racks: Mapping[int, Any]) -> Iterator[Fault]:
        """Tell what is not established about a region's parts."""
        return self.notes(cluster, racks)

    def found_faults(self, cluster: Any, racks: Mapping[int, Any]) -> Iterator[Fault]:
        """Check a region's parts, which `typed` made and which are therefore of this cloud."""
        return self.faults(cluster, racks)


def typed(model: type[FileModel], data: object) -> FileModel:
    """Make a cloud's model of what the file says, with errors in words about its own keys."""
    try:
        return model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise explained(model, error) from error
