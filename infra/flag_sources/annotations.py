"""Read type annotations of fields: which values does a field take?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from infra.flag_sources.classes import base_names, is_dataclass, is_enum
from infra.flag_sources.evaluator import Evaluator
from infra.flag_sources.program import Import, Module
from infra.flag_sources.values import Class, EnumMember, Opaque

SCALARS = ("int", "float", "str", "bool")  # in the order in which the engines choose
COLLECTIONS = frozenset({"list", "set", "tuple"})
MAX_NESTING = 12

_WRAPPERS = frozenset({"Annotated", "A", "SkipValidation", "Final", "InitVar", "Required"})
_COLLECTION_NAMES = {
    **dict.fromkeys(("list", "List", "Sequence", "Iterable"), "list"),
    **dict.fromkeys(("set", "Set", "frozenset"), "set"),
    **dict.fromkeys(("tuple", "Tuple"), "tuple"),
}
_MAPPINGS = frozenset({"dict", "Dict", "Mapping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One alternative of an annotation.

    `kind` is a scalar's name, `none`, `literal`, `list`, `set`, `tuple`, `dict`, `enum`,
    `dataclass` or `other`.
    """

    kind: str
    values: tuple[object, ...] = ()  # of a literal
    cls: Class | None = None  # of an enum or a dataclass
    items: tuple[Kind, ...] = ()  # of a collection
    length: int | None = None  # of a tuple; None is any


def kinds(ev: Evaluator, node: ast.expr, depth: int = 0) -> list[Kind]:
    """List the alternatives of an annotation that was written in `ev.module`."""
    found = [Kind(kind="other")]
    match node:
        case _ if depth > MAX_NESTING:
            pass
        case ast.Constant(value=None):
            found = [Kind(kind="none")]
        case ast.Constant(value=str() as text):
            found = kinds(ev, ast.parse(text, mode="eval").body, depth + 1)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            found = kinds(ev, left, depth + 1) + kinds(ev, right, depth + 1)
        case ast.Subscript():
            found = _generic(ev, node, depth)
        case ast.Name() | ast.Attribute():
            found = _named(ev, node, depth)
    return found


def _generic(ev: Evaluator, node: ast.Subscript, depth: int) -> list[Kind]:
    name = ast.unparse(node.value).rpartition(".")[2]
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        values = [value for part in parts for value in _literal_values(ev, part, depth)]
        return [Kind(kind="literal", values=tuple(values))]
    if name in {"Union", "Optional"}:
        found = [kind for part in parts for kind in kinds(ev, part, depth + 1)]
        return [*found, Kind(kind="none")] if name == "Optional" else found
    if name in _WRAPPERS:
        return kinds(ev, parts[0], depth + 1)
    if name in _MAPPINGS:
        return [Kind(kind="dict")]
    if name in _COLLECTION_NAMES:
        inner = tuple(kinds(ev, parts[0], depth + 1))
        open_end = any(isinstance(part, ast.Constant) and part.value is ... for part in parts)
        length = len(parts) if name in {"tuple", "Tuple"} and not open_end else None
        return [Kind(kind=_COLLECTION_NAMES[name], items=inner, length=length)]
    return [Kind(kind="other")]


def _literal_values(ev: Evaluator, node: ast.expr, depth: int) -> Iterator[object]:
    value = ev.value(node)
    if isinstance(value, Opaque):  # a literal inside a literal, by its name
        yield from literals(kinds(ev, node, depth + 1))
    else:
        yield value.value if isinstance(value, EnumMember) else value


def _named(ev: Evaluator, node: ast.Name | ast.Attribute, depth: int) -> list[Kind]:
    name = ast.unparse(node)
    short = name.rpartition(".")[2]
    if name in SCALARS:
        return [Kind(kind=name)]
    if name in COLLECTIONS:
        return [Kind(kind=name, items=(Kind(kind="str"),))]
    if short in _MAPPINGS:
        return [Kind(kind="dict")]
    if isinstance(node, ast.Name) and (alias := _alias(ev, ev.module, name)) is not None:
        expression, module = alias
        return kinds(ev.inside(module), expression, depth + 1)
    value = ev.value(node)
    return [_class_kind(ev, value) if isinstance(value, Class) else Kind(kind="other")]


def _class_kind(ev: Evaluator, cls: Class) -> Kind:
    if is_enum(ev, cls):
        return Kind(kind="enum", cls=cls)
    if is_dataclass(cls):
        return Kind(kind="dataclass", cls=cls)
    return Kind(kind="dict" if "dict" in base_names(ev, cls) else "other")


def _alias(ev: Evaluator, module: Module, name: str) -> tuple[ast.expr, Module] | None:
    """Find the expression that a name of a type stands for, also in other modules."""
    match module.names.get(name):
        case ast.expr() as expression:
            return expression, module
        case Import(module=elsewhere, name=original):
            found = ev.reading.program.module(elsewhere)
            return _alias(ev, found, original) if found is not None and found != module else None
        case _:
            return None


def literals(alternatives: Iterable[Kind]) -> list[object]:
    """Collect the values of all literals among some alternatives."""
    return [value for each in alternatives for value in each.values]


def scalar(alternatives: Iterable[Kind], among: Iterable[str] = SCALARS) -> str:
    """Name the first scalar among some alternatives; text if there is none."""
    return next((each.kind for each in alternatives if each.kind in among), "str")
