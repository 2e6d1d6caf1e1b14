"""Decide what one run of the linter looks at: a fleet, or files that anybody wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from fleet.errors import Problem
from fleet.load import Fleet, load_fleet, load_hardware, load_model
from fleet.spec import (
    DEFAULT_HARDWARE,
    DEFAULT_KUBERNETES,
    DEFAULT_MODEL,
    Kubernetes,
    kubernetes_version,
)
from fleet.yaml_document import MAX_FILE_BYTES, file_content, parse_content
from infra.lint.manifest import Manifest
from infra.lint.reading import FLEET_API, read_manifests
from infra.lint.ruleset import RULES
from infra.lint.scene import Scene
from infra.lint.waivers import Waiver, fleet_waivers
from infra.options import Layer
from infra.render import render_region


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is judged, and which findings its team has waived."""

    scene: Scene
    waivers: tuple[Waiver, ...]
    notices: tuple[Problem, ...] = ()  # what a folder holds beside manifests


def subject(
    paths: Sequence[Path], fleet_file: Path | None = None, kubernetes: Kubernetes | None = None
) -> Subject:
    """Take a fleet file by itself, or manifests; `fleet_file` then says what they belong to.

    Raises ConfigError when a file cannot be used.
    """
    if fleet_file is None and len(paths) == 1 and is_fleet_file(paths[0]):
        given = load_fleet(paths[0])
        return _subject(rendered(given), given, kubernetes)
    fleet = load_fleet(fleet_file) if fleet_file else None
    manifests, notices = read_manifests(paths)
    return replace(_subject(manifests, fleet, kubernetes), notices=notices)


def is_fleet_file(path: Path) -> bool:
    """Say whether a file is meant to be a fleet file, right or wrong."""
    content = file_content(path, MAX_FILE_BYTES, "")
    if isinstance(content, Problem) or FLEET_API.encode() not in content:
        return False
    data = parse_content(content, str(path)).data
    return isinstance(data, dict) and data.get("apiVersion") == FLEET_API


def rendered(fleet: Fleet) -> tuple[Manifest, ...]:
    """Render every region and layer of a fleet; each object knows its region and layer only."""
    return tuple(
        Manifest(file=f"{region.name}/{layer}", data=item)
        for region in fleet.spec.regions
        for layer in get_args(Layer)
        for item in render_region(fleet, region.name, layer)
    )


def _subject(
    manifests: tuple[Manifest, ...], fleet: Fleet | None, kubernetes: Kubernetes | None
) -> Subject:
    asked = kubernetes or (fleet.spec.kubernetes if fleet else DEFAULT_KUBERNETES)
    here = Path()
    scene = Scene(
        manifests=manifests,
        kubernetes=kubernetes_version(asked),
        model=fleet.model if fleet else load_model(DEFAULT_MODEL, beside=here),
        hardware=fleet.hardware if fleet else load_hardware(DEFAULT_HARDWARE, beside=here),
    )
    return Subject(scene=scene, waivers=fleet_waivers(fleet, RULES) if fleet else ())
