"""Say what a cloud's program is given, what it gives back, and what it cannot promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pulumi

from fleet.clouds.promises import Promise
from fleet.region_spec import RackSpec, RegionSpec

# On every node of a rack; infra/values.py pins replicas to it.
RACK_LABEL = "k3fleet.io/rack"
MANAGED_BY = "k3fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is to be made: one region's cluster."""

    fleet: str
    region: RegionSpec  # `cluster`, and `capacity` of each rack, are this cloud's own models
    kubernetes: str  # major.minor
    nodes_per_rack: int
    gpus_per_node: int
    folder: Path = Path()  # of the fleet file, which paths in it are relative to

    @property
    def name(self) -> str:
        """The cluster's name, which no other region of the fleet has."""
        return f"{self.fleet}-{self.region.name}"

    @property
    def tags(self) -> dict[str, str]:
        """What everything that is made for this region carries."""
        return {
            "k3fleet:fleet": self.fleet,
            "k3fleet:region": self.region.name,
            "k3fleet:managed-by": MANAGED_BY,
        }

    def rack_tags(self, rack: RackSpec) -> dict[str, str]:
        """What everything that is made for one rack carries."""
        return {**self.tags, "k3fleet:rack": rack.id}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCluster:
    """What a program has declared: the fields of `infra.outputs.ClusterOutputs`, not known yet."""

    cluster_name: pulumi.Input[str]
    endpoint: pulumi.Input[str] | None
    ca: pulumi.Input[str] | None
    racks: Mapping[str, pulumi.Input[str]]
    kubeconfig_command: tuple[pulumi.Input[str], ...]


class CloudProgram(Protocol):
    """Declares the clusters of one cloud.

    Names of resources are made of rack ids and region names, never of places in a
    list; all resources go through one explicit provider; what is of a kind in
    `infra.clouds.protected` is declared with `protect` and `retain_on_delete`.
    """

    promises: tuple[Promise, ...]

    def declare(self, place: Place) -> DeclaredCluster:
        """Declare a region's cluster. Everything that could be checked before has been."""
        ...
