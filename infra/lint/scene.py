"""Hold everything that one run of the linter looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter

from fleet.hardware import Hardware
from fleet.model import Model
from infra.lint.commands import Command, commands
from infra.lint.manifest import Manifest
from infra.lint.pods import Container, PodTemplate, Workload, workloads


@dataclass(frozen=True, kw_only=True)
class Scene:
    """All objects of a run, and what they are judged against."""

    manifests: tuple[Manifest, ...]
    kubernetes: tuple[int, int]  # of the cluster, for example (1, 37)
    model: Model
    hardware: Hardware

    def of(self, *kinds: str) -> Iterator[Manifest]:
        """Yield the objects of some kinds."""
        return (item for item in self.manifests if item.kind in kinds)

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Everything that makes pods."""
        return tuple(found for item in self.manifests for found in workloads(item))

    @cached_property
    def engines(self) -> tuple[Workload, ...]:
        """Workloads that run an engine: what a replica is made of."""
        return tuple(
            found
            for found in self.workloads
            if any(command.is_engine for command in self.commands_of(found))
        )

    def engine_containers(self) -> Iterator[tuple[PodTemplate, Container]]:
        """Yield the containers of the engines' pods, each with its pod."""
        for workload in self.engines:
            for template in workload.templates:
                for container in template.containers():
                    yield template, container

    @cached_property
    def templates(self) -> tuple[PodTemplate, ...]:
        """Everything that pods are made of."""
        return tuple(template for item in self.workloads for template in item.templates)

    @cached_property
    def config_maps(self) -> Mapping[tuple[str, str], Manifest]:
        """The ConfigMaps, by region and name."""
        return {(item.region, item.name): item for item in self.of("ConfigMap")}

    def commands_of(self, workload: Workload) -> tuple[Command, ...]:
        """Return the engines and frontends that a workload starts."""
        return self._commands[workload]

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """Every start of an engine or a frontend."""
        return tuple(command for found in self._commands.values() for command in found)

    @cached_property
    def _commands(self) -> Mapping[Workload, tuple[Command, ...]]:
        return {
            workload: tuple(
                command
                for template in workload.templates
                for container in template.containers()
                for command in commands(container)
            )
            for workload in self.workloads
        }

    @cached_property
    def regions(self) -> Mapping[str, tuple[Manifest, ...]]:
        """Objects that work together, by region; without a region label, by file."""
        ordered = sorted(self.manifests, key=attrgetter("region"))
        return {name: tuple(items) for name, items in groupby(ordered, attrgetter("region"))}
