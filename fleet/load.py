"""Load a fleet file with everything that it names.

All problems of all files at once: a person fixes a fleet file in one round, not
one line per run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from fleet.checks import group_problem, regions_problems, section_problems
from fleet.errors import CapacityError, ConfigError, Problem
from fleet.hardware import Hardware
from fleet.memory import replica_memory
from fleet.model import Model
from fleet.presets import PRESET_FOLDERS, NotFound, named_file, preset_names
from fleet.release import NODES_PER_REPLICA, Release, Role, release_id
from fleet.release_checks import backend_problem, release_problems
from fleet.release_file import file_problems, read_release
from fleet.router import RouterSpec
from fleet.schema import FileModel, validate
from fleet.spec import FleetSpec
from fleet.yaml_document import Document, NodePath, read_document

__all__ = [
    "PRESET_FOLDERS",
    "Fleet",
    "load_fleet",
    "load_hardware",
    "load_model",
    "load_release",
    "preset_names",
]

PartT = TypeVar("PartT", bound=FileModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet file and the files it names, all valid and fitting each other."""

    spec: FleetSpec
    model: Model
    hardware: Hardware
    release: Release
    release_id: str
    path: Path

    @property
    def router(self) -> RouterSpec:
        """How frontends choose a replica: what the fleet file says, or else its release."""
        return self.spec.router or self.release.router


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part(Generic[PartT]):
    """A file that the fleet file names."""

    value: PartT | None
    document: Document | None
    problems: list[Problem]


def load_fleet(path: Path, *, release: str | None = None) -> Fleet:
    """Read a fleet file; raise ConfigError with every problem of it and of the files it names.

    `release` takes the place of the one that the file names: is the fleet fit for it?
    """
    document = read_document(path)
    if release is not None and isinstance(document.data, dict):
        document = replace(document, data={**document.data, "release": release})
    spec, problems = validate(FleetSpec, document)
    if document.is_broken(()):
        raise ConfigError.of(problems)
    model = _part("model", Model, document, path)
    hardware = _part("hardware", Hardware, document, path)
    found = _part("release", Release, document, path)
    problems += model.problems + hardware.problems + found.problems
    nodes_per_replica = found.value.nodes if found.value else NODES_PER_REPLICA
    problems += regions_problems(document, hardware.value, nodes_per_replica)
    problems += section_problems(document, spec) if spec else ()
    problems += _fit_problems(spec, model.value, hardware.value, found)
    if problems or not (spec and model.value and hardware.value and found.value):
        raise ConfigError.of(_in_reading_order(problems, document.file))
    return Fleet(
        spec=spec,
        model=model.value,
        hardware=hardware.value,
        release=found.value,
        release_id=release_id(found.value),
        path=path,
    )


def load_release(name: str, *, beside: Path) -> Release:
    """Load a release preset by name, or a file by a path relative to `beside`."""
    return _load("release", Release, name, beside)


def load_model(name: str, *, beside: Path) -> Model:
    """Load a model preset by name, or a file by a path relative to `beside`."""
    return _load("model", Model, name, beside)


def load_hardware(name: str, *, beside: Path) -> Hardware:
    """Load a hardware preset by name, or a file by a path relative to `beside`."""
    return _load("hardware", Hardware, name, beside)


def _load(kind: str, model: type[PartT], name: str, beside: Path) -> PartT:
    document = Document(file=name, data={kind: name}, lines={}, problems=(), broken=frozenset())
    part = _part(kind, model, document, beside)
    if part.value is None:
        raise ConfigError.of(part.problems)
    return part.value


def _part(kind: str, model: type[PartT], document: Document, path: Path) -> _Part[PartT]:
    data = document.data if isinstance(document.data, dict) else {}
    field = FleetSpec.model_fields[kind]
    name = data.get(kind, None if field.is_required() else field.default)
    if not isinstance(name, str) or not name:  # a wrong type is already reported
        return _Part(value=None, document=None, problems=[])
    found = named_file(kind, name, path.parent)
    if isinstance(found, NotFound):
        problem = document.problem((kind,), found.what, found.fix)
        return _Part(value=None, document=None, problems=[problem])
    part = read_release(found) if kind == "release" else read_document(found)
    if part.unreadable:
        problem = document.problem(
            (kind,), f"{part.file} {part.problems[0].what}", "Check the path"
        )
        return _Part(value=None, document=None, problems=[problem])
    value, problems = validate(model, part)
    if isinstance(value, Release):
        problems += file_problems(part, value)
    return _Part(value=None if problems else value, document=part, problems=problems)


def _fit_problems(
    spec: FleetSpec | None,
    model: Model | None,
    hardware: Hardware | None,
    release: _Part[Release],
) -> list[Problem]:
    """Find what in a release does not go with its model, its racks and its backend."""
    if not (model and hardware and release.value and release.document):
        return []
    document = release.document
    problems = [document.problem(*found) for found in release_problems(model, release.value)]
    if spec and (unfit := backend_problem(spec.backend, release.value)):
        problems.append(document.problem(*unfit))
    if found := group_problem(hardware, release.value):
        problems.append(document.problem(("disaggregation",), *found))
    for role in dict.fromkeys(release.value.roles):
        try:
            replica_memory(model, hardware, release.value, role)
        except CapacityError as error:
            what, _, fix = str(error).rpartition(". ")
            problems.append(document.problem(_blamed(document, role, error.fields), what, fix))
    return problems


def _blamed(document: Document, role: Role, fields: tuple[str, ...]) -> NodePath:
    """Choose the path of what does not fit: what the file itself says, before what it inherits."""
    paths: list[NodePath] = [tuple(field.split(".")) for field in fields]
    pooled: list[NodePath] = [("disaggregation", role, *path) for path in paths]
    given = [path for path in (*pooled, *paths) if path in document.lines]
    own = [path for path in given if document.file_at(path) == document.file]
    tensor: NodePath = ("parallelism", "tensor")
    flat = document.file_at(tensor) == document.file and len(own) == len(given)
    return own[0] if own and not flat else tensor


def _in_reading_order(problems: list[Problem], first: str) -> list[Problem]:
    return sorted(problems, key=lambda found: (found.file != first, found.file, found.line or 0))
