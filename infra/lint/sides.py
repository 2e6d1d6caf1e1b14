"""Tell the frontends of a region from the engines that they send requests to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from infra.lint.commands import Command
from infra.lint.pods import Workload
from infra.lint.scene import Scene


class Side(NamedTuple):
    """The frontends and the Dynamo workers of one region."""

    frontends: list[tuple[Workload, Command]]
    workers: list[tuple[Workload, Command]]


def sides(scene: Scene) -> Mapping[str, Side]:
    """Return both sides of each region where Dynamo routes."""
    found: dict[str, Side] = {}
    for workload in scene.workloads:
        for command in scene.commands_of(workload):
            if not command.program.startswith("dynamo."):
                continue
            side = found.setdefault(workload.manifest.region, Side([], []))
            part = side.workers if command.is_engine else side.frontends
            part.append((workload, command))
    return found
