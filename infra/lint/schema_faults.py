"""Say in plain words what a schema has against an object, with the exact place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match

from fleet.schema import found_text
from fleet.yaml_document import NodePath

MAX_FAULTS = 100  # of one object: who has more has not written this kind of object
_LISTED = 12  # so many known fields fit a line

_NAMES: Mapping[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_LIMITS: Mapping[str, str] = {
    "minimum": "is below {limit}",
    "maximum": "is above {limit}",
    "exclusiveMinimum": "is not above {limit}",
    "exclusiveMaximum": "is not below {limit}",
    "minLength": "has fewer than {limit} characters",
    "maxLength": "has more than {limit} characters",
    "minItems": "has fewer than {limit} items",
    "maxItems": "has more than {limit} items",
}
_PLAIN = re.compile(r"-?[0-9]+(\.[0-9]+)?|true|false")


class Fault(NamedTuple):
    """One thing that is wrong with an object."""

    path: NodePath
    what: str
    fix: str


def faults(validator: Draft202012Validator, data: object) -> tuple[Fault, ...]:
    """List what is wrong with an object, each fault once, in the order of the schema.

    Raises RecursionError for what nests without end.
    """
    found = islice(validator.iter_errors(data), MAX_FAULTS)
    return tuple(dict.fromkeys(fault for error in found for fault in _explained(error)))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    by_lower = {item.lower(): item for item in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def _explained(error: ValidationError) -> Iterator[Fault]:
    while error.context and (deeper := best_match(error.context)):
        error = deeper
    explain = _EXPLAINED.get(str(error.validator), _other)
    yield from explain(error, tuple(error.absolute_path))


def _names(value: object) -> list[str]:
    """Take a list, or the keys of a mapping; a validator hands over either."""
    return [str(name) for name in value] if isinstance(value, list | dict) else []


def _unknown_fields(error: ValidationError, path: NodePath) -> Iterator[Fault]:
    known = _part(error, "properties")
    for name in _names(error.instance):
        if name not in known:
            yield Fault(
                (*path, name), f"the field {found_text(name)} is unknown", _known(name, known)
            )


def _known(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if near := nearest(name, names):
        return f"Did you mean {near}?"
    advice = "Remove it: the API server refuses or drops it"
    return f"{advice}. Known: {', '.join(names)}." if 0 < len(names) <= _LISTED else f"{advice}."


def _missing(error: ValidationError, path: NodePath) -> Iterator[Fault]:
    given = _names(error.instance)
    for name in _names(error.validator_value):
        if name not in given:
            yield Fault((*path, name), f"the field {name!r} is missing", "Add it.")


def _type(error: ValidationError, path: NodePath) -> Iterator[Fault]:
    stated = error.validator_value
    kinds = _names([stated] if isinstance(stated, str) else stated)
    kinds = [kind for kind in kinds if kind != "null"]
    wanted = " or ".join(_NAMES[kind] for kind in kinds)
    found = found_text(error.instance)
    yield Fault(path, f"{found} stands where {wanted} belongs", _retyped(error.instance, kinds))


def _retyped(value: object, kinds: list[str]) -> str:
    scalar = isinstance(value, str | int | float)
    if "string" in kinds and scalar:
        return "Put it in quotes."
    if isinstance(value, str) and _PLAIN.fullmatch(value) and "string" not in kinds:
        return "Write it without quotes."
    if "array" in kinds:
        return "Write a list: each item starts with a dash."
    return f"Write {' or '.join(_NAMES[kind] for kind in kinds)}."


def _choice(error: ValidationError, path: NodePath) -> Iterator[Fault]:
    stated = error.validator_value
    choices = [str(item) for item in (stated if isinstance(stated, list) else [stated])]
    near = nearest(error.instance, choices) if isinstance(error.instance, str) else None
    fix = f"Did you mean {near}?" if near else "Use one of them."
    yield Fault(path, f"{found_text(error.instance)} is none of {', '.join(choices)}", fix)


def _pattern(error: ValidationError, path: NodePath) -> Iterator[Fault]:
    found = found_text(error.instance)
    if _part(error, "title") == "quantity":
        yield Fault(path, f"{found} is no quantity", "Write a number with a unit, such as 64Gi.")
    else:
        fix = "Write a value that matches it."
        yield Fault(path, f"{found} does not match {error.validator_value}", fix)


def _limit(error: ValidationError, path: NodePath) -> Iterator[Fault]:
    reason = _LIMITS[str(error.validator)].format(limit=error.validator_value)
    yield Fault(path, f"{found_text(error.instance)} {reason}", "Keep within the limit.")


def _other(error: ValidationError, path: NodePath) -> Iterator[Fault]:
    what = f"{found_text(error.instance)} breaks {error.validator} of the schema"
    yield Fault(path, what, "Look at the documentation of this kind.")


def _part(error: ValidationError, keyword: str) -> Any:
    schema = error.schema
    return schema.get(keyword, ()) if isinstance(schema, Mapping) else ()


_EXPLAINED: Mapping[str, Callable[[ValidationError, NodePath], Iterator[Fault]]] = {
    "additionalProperties": _unknown_fields,
    "required": _missing,
    "type": _type,
    "enum": _choice,
    "const": _choice,
    "pattern": _pattern,
    **dict.fromkeys(_LIMITS, _limit),
}
