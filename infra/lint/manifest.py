"""Look at one Kubernetes object and know where each part of it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.yaml_document import NodePath
from infra.render import KubeObject

RENDERED: Mapping[NodePath, int] = {}  # what we rendered in memory has no lines
REGION = "k3fleet.io/region"
RACK = "k3fleet.io/rack"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Manifest:
    """One object of a file, or of a rendering.

    `lines` gives the line (1-based) of each path below the object's own root;
    `duplicates` the path and line of each key that was given before (the last one counts).
    """

    file: str  # as the user gave it; `us-east/serving` for a rendering
    data: KubeObject
    lines: Mapping[NodePath, int] = field(default_factory=lambda: RENDERED)
    duplicates: tuple[tuple[NodePath, int], ...] = ()

    @property
    def kind(self) -> str:
        """Return the kind, empty when the object does not say."""
        return _text(self.data.get("kind"))

    @property
    def api_version(self) -> str:
        """Return group and version, for example `apps/v1`."""
        return _text(self.data.get("apiVersion"))

    @property
    def name(self) -> str:
        """Return the name, empty when the object has none."""
        return _text(_mapping(self.data.get("metadata")).get("name"))

    @property
    def namespace(self) -> str:
        """Return the namespace, empty when the object does not say."""
        return _text(_mapping(self.data.get("metadata")).get("namespace"))

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the object's own labels."""
        return texts(_mapping(self.data.get("metadata")).get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the object's own annotations."""
        return texts(_mapping(self.data.get("metadata")).get("annotations"))

    @property
    def region(self) -> str:
        """Say which objects belong together: those of a region, else those of a file."""
        return self.labels.get(REGION, self.file)

    def line(self, path: NodePath) -> int | None:
        """Return the line of a path, or of its nearest parent that exists."""
        parents = (path[:size] for size in range(len(path), -1, -1))
        return next((self.lines[part] for part in parents if part in self.lines), None)

    def at(self, *path: str | int) -> object:
        """Return what stands at a path, None where it does not exist."""
        found: object = self.data
        for part in path:
            if isinstance(found, dict) and isinstance(part, str):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def __str__(self) -> str:
        """Name the object as people do: `LeaderWorkerSet k3/use1-r01-0`."""
        whole = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {whole}".strip()


def texts(value: object) -> Mapping[str, str]:
    """Take a mapping of text to text; what is none (hostile input) counts as empty."""
    return {str(key): str(item) for key, item in _mapping(value).items()}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
