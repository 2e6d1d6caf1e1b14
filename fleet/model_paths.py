"""Follow a path of a file through the models that it is read into."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel

from fleet.yaml_document import NodePath


def known_keys(model: type[BaseModel], path: NodePath) -> list[str]:
    """List the keys that a file may have at a path."""
    owner = model_at(model, path)
    if owner is None:
        return []
    return [field.alias or name for name, field in owner.model_fields.items()]


def description(model: type[BaseModel], path: NodePath) -> str:
    """Say what the key at a path is for, after a colon; nothing where nothing is said."""
    owner = model_at(model, path[:-1])
    fields = owner.model_fields.items() if owner else ()
    for name, field in fields:
        if (field.alias or name) == path[-1] and field.description:
            return f": {field.description}"
    return ""


def model_at(model: type[BaseModel], path: NodePath) -> type[BaseModel] | None:
    """Follow a path through nested models; indices and keys stay at the item's model."""
    current: type[BaseModel] | None = model
    keyed = False  # the next part is a key of a mapping, and no field
    for part in path:
        if isinstance(part, int) or keyed or current is None:
            keyed = False
            continue
        by_key = {field.alias or name: field for name, field in current.model_fields.items()}
        annotation = by_key[part].annotation if part in by_key else None
        keyed = get_origin(annotation) is dict
        current = _inner_model(annotation)
    return current


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, list, dict, Union, UnionType, Annotated):
        return next(filter(None, map(_inner_model, get_args(annotation))), None)
    return None
