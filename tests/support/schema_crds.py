"""Make definitions of custom kinds out of the linter's schemas, for a real API server.

The operators bring their own definitions; these say the same about the fields that the linter
knows. Pod templates are spelled out in Kubernetes' own types of one version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from referencing.jsonschema import DRAFT202012

from infra.lint.core_schema import Kind, Version, custom_kinds, schemas_of

Schema = dict[str, Any]
Resolver = Any  # of `referencing`, generic without use here

_LIMITS = ("pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_OPEN: Mapping[str, bool] = {"x-kubernetes-preserve-unknown-fields": True}
_ROOT: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


def definition(kind: Kind, version: Version) -> dict[str, Any]:
    """Give the CustomResourceDefinition of a kind, with pod templates as a version has them."""
    api_version, name = kind
    group, _, served = api_version.partition("/")
    plural = f"{name.lower()}s"
    names = {"kind": name, "listKind": f"{name}List", "plural": plural, "singular": name.lower()}
    described = {
        "name": served,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _root(kind, version)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [described]},
    }


def _root(kind: Kind, version: Version) -> Schema:
    schema = json.loads(custom_kinds()[kind].read_text(encoding="utf-8"))
    root = DRAFT202012.create_resource(schema)
    resolver = schemas_of(version).registry.resolver_with_root(root)
    parts = {
        name: _structural(part, resolver)
        for name, part in schema["properties"].items()
        if name not in _ROOT
    }
    required = [name for name in schema["required"] if name in parts]
    return {"type": "object", "required": required, "properties": {**_ROOT, **parts}}


def _structural(schema: Mapping[str, Any], resolver: Resolver) -> Schema:
    """Write a schema in the part of the language that the API server takes, references inline."""
    if "$ref" in schema:
        found = resolver.lookup(schema["$ref"])
        return _structural(found.contents, found.resolver)
    stated = schema.get("type", [])
    types = [item for item in ([stated] if isinstance(stated, str) else stated) if item != "null"]
    node: Schema = {key: schema[key] for key in _LIMITS if key in schema}
    if not types:
        return {**_OPEN}
    if len(types) > 1:  # text or number: an IntOrString, a quantity
        return {"x-kubernetes-int-or-string": True, **node}
    node["type"] = types[0]
    if "enum" in schema:
        node["enum"] = [item for item in schema["enum"] if item is not None]
    if "items" in schema:
        node["items"] = _structural(schema["items"], resolver)
    return node | _fields(schema, resolver) if types == ["object"] else node


def _fields(schema: Mapping[str, Any], resolver: Resolver) -> Schema:
    others = schema.get("additionalProperties", True)
    if isinstance(others, Mapping):  # a mapping from any name
        return {"additionalProperties": _structural(others, resolver)}
    known = {
        name: _structural(part, resolver) for name, part in schema.get("properties", {}).items()
    }
    node: Schema = {"properties": known} if known else {}
    if schema.get("required"):
        node["required"] = list(schema["required"])
    return node | (_OPEN if others else {})
