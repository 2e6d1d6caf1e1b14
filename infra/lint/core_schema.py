"""Know the schema of every kind: Kubernetes' own by version, and the custom ones we meet.

Kubernetes' own come from the package `kubernetes-validate`, which ships them for each
version. Its `validate()` reads 2 MB of JSON again for every object; here each version is
read once, and each kind gets one validator.

The custom kinds stand in `schemas/`, one file each. They refer to Kubernetes' own types
(`PodTemplateSpec`, …), which are then those of the cluster's version.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

Version = tuple[int, int]
Kind = tuple[str, str]  # apiVersion, kind

CUSTOM = Path(__file__).parent / "schemas"
CORE_URI = "https://kubernetes.io/api/_definitions.json"
_PACKAGED = re.compile(r"v(\d+)\.(\d+)\.0-local-strict")
_KINDS = "x-kubernetes-group-version-kind"

# The package says `oneOf` text and number, about which a validator can only say that
# neither fits, and nothing of the grammar of quantities, which the API server checks.
# Source: apimachinery/pkg/api/resource/quantity.go.
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_REPLACED: Mapping[str, Mapping[str, object]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "title": "quantity",
        "type": ["string", "number"],
        "pattern": rf"^[+-]?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
}


@dataclass(frozen=True, kw_only=True)
class Schemas:
    """All schemas, as a cluster of one version has them."""

    version: Version
    core: Mapping[Kind, str]  # the definition of each kind that the version has
    registry: Registry[Any]
    _validators: dict[Kind, Draft202012Validator | None] = field(default_factory=dict)

    def validator(self, kind: Kind) -> Draft202012Validator | None:
        """Return what checks objects of a kind, None for a kind without a schema."""
        if kind not in self._validators:
            self._validators[kind] = self._made(kind)
        return self._validators[kind]

    def _made(self, kind: Kind) -> Draft202012Validator | None:
        schema: Any = None
        if kind in self.core:
            schema = {"$ref": f"{CORE_URI}#/$defs/{self.core[kind]}"}
        elif kind in custom_kinds():
            schema = json.loads(custom_kinds()[kind].read_text(encoding="utf-8"))
        return None if schema is None else Draft202012Validator(schema, registry=self.registry)

    @functools.cached_property
    def groups(self) -> frozenset[str]:
        """The groups of Kubernetes' own kinds; the one of `v1` is empty text."""
        return frozenset(group_of(api_version) for api_version, _ in self.core)


@functools.cache
def custom_kinds() -> Mapping[Kind, Path]:
    """List the custom kinds that have a schema: `example.com_v1_Thing.json`."""
    found = {}
    for path in sorted(CUSTOM.glob("*.json")):
        group, version, kind = path.stem.split("_")
        found[f"{group}/{version}", kind] = path
    return found


@functools.cache
def packaged_versions() -> tuple[Version, ...]:
    """List the versions of Kubernetes whose schemas we have, oldest first."""
    names = (_PACKAGED.fullmatch(folder.name) for folder in _package().iterdir())
    return tuple(sorted((int(found[1]), int(found[2])) for found in names if found))


def nearest_version(version: Version) -> Version:
    """Return the newest version that we have schemas of and that is not newer, else the oldest."""
    older = [item for item in packaged_versions() if item <= version]
    return older[-1] if older else packaged_versions()[0]


@functools.lru_cache(maxsize=4)
def schemas_of(version: Version) -> Schemas:
    """Read the schemas of a version, of which there must be some."""
    text = (_folder(version) / "_definitions.json").read_text(encoding="utf-8")
    contents = json.loads(text)
    contents["$defs"].update(_REPLACED)
    resource = Resource.from_contents(contents, default_specification=DRAFT202012)
    return Schemas(
        version=version,
        core={
            kind: name
            for name, schema in contents["$defs"].items()
            for kind in _kinds(schema.get(_KINDS, ()))
        },
        registry=Registry().with_resource(CORE_URI, resource),
    )


def versions_with(kind: Kind) -> tuple[Version, ...]:
    """List the versions of Kubernetes that know a kind, oldest first."""
    api_version, name = kind
    short = re.sub(r"^([^./]*)(\.[^/]*)?/", r"\1-", api_version)
    if not re.fullmatch(r"[A-Za-z]+/[a-z0-9-]+", f"{name}/{short}"):
        return ()  # would be no file name
    file = f"{name.lower()}-{short}.json"
    return tuple(item for item in packaged_versions() if (_folder(item) / file).is_file())


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion, empty for `v1`."""
    return api_version.rpartition("/")[0]


def _kinds(stated: Any) -> Iterator[Kind]:
    for item in stated:
        group, version = item["group"], item["version"]
        yield (f"{group}/{version}" if group else version), item["kind"]


def _package() -> Traversable:
    return files("kubernetes_validate") / "kubernetes-json-schema"


def _folder(version: Version) -> Traversable:
    major, minor = version
    return _package() / f"v{major}.{minor}.0-local-strict"
