"""Read classes of the source: bases, fields, attributes, methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from infra.flag_sources.program import Module
from infra.flag_sources.values import Class, EnumMember, Function, Instance, Opaque

if TYPE_CHECKING:
    from infra.flag_sources.evaluator import Evaluator

REQUIRED = Opaque("required")
_DATACLASS = frozenset({"dataclass", "config"})  # `config` is vLLM's own decorator
_EMPTY = {"dict": dict, "list": list, "set": list}  # JSON has no sets


class Field(NamedTuple):
    """An annotated attribute of a dataclass."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    doc: str
    owner: Class


def ancestors(ev: Evaluator, cls: Class) -> list[Class]:
    """List a class and those it derives from, nearest first, as far as the wheels hold them."""
    known = ev.reading.ancestry
    if cls not in known:
        found = known[cls] = [cls]
        for base in cls.node.bases:
            value = ev.inside(cls.module).value(base)
            if isinstance(value, Class):
                found += [each for each in ancestors(ev, value) if each not in found]
    return known[cls]


def base_names(ev: Evaluator, cls: Class) -> set[str]:
    """Name all classes it derives from, also those outside the wheels."""
    return {
        ast.unparse(base).partition("[")[0].rpartition(".")[2]
        for each in ancestors(ev, cls)
        for base in each.node.bases
    }


def is_enum(ev: Evaluator, cls: Class) -> bool:
    """Say whether it derives from Enum or a kind of it."""
    return any("Enum" in name for name in base_names(ev, cls))


def is_dataclass(cls: Class) -> bool:
    """Say whether a decorator makes it a dataclass or one of vLLM's config classes."""
    return not _DATACLASS.isdisjoint(cls.decorators())


def enum_names(cls: Class) -> list[str]:
    """List the names of an enum's members."""
    return [name for name in cls.assigned() if not name.startswith("_")]


def enum_members(ev: Evaluator, cls: Class) -> list[object]:
    """List the members of an enum with their values."""
    return [_class_attribute(ev, cls, name) for name in enum_names(cls)]


def fields(ev: Evaluator, cls: Class) -> dict[str, Field]:
    """Map names to fields, those of base classes first; class variables are none."""
    found: dict[str, Field] = {}
    for owner in reversed(ancestors(ev, cls)):
        found |= {each.name: each for each in _own_fields(owner)}
    return found


def _own_fields(owner: Class) -> Iterator[Field]:
    body = owner.node.body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                if "ClassVar" not in ast.unparse(annotation):
                    yield Field(name, annotation, default, _doc(following), owner)


def _doc(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return text
        case _:
            return ""


def field_default(ev: Evaluator, default: ast.expr | None, module: Module) -> object:
    """Evaluate a field's default, also inside `field(...)`; REQUIRED if there is none."""
    inside = ev.inside(module)
    if default is None:
        return REQUIRED
    if not (
        isinstance(default, ast.Call)
        and ast.unparse(default.func).rpartition(".")[2] in {"field", "Field"}
    ):
        return inside.value(default)
    given = {keyword.arg: keyword.value for keyword in default.keywords}
    if "default" in given:
        return inside.value(given["default"])
    match given.get("default_factory"):
        case None:
            return inside.value(default.args[0]) if default.args else REQUIRED
        case ast.Lambda(body=body):
            return inside.value(body)
        case factory:
            name = ast.unparse(factory)
            return _EMPTY[name]() if name in _EMPTY else Opaque(f"{name}()")


def method(ev: Evaluator, cls: Class, name: str, *, above: bool = False) -> Function | None:
    """Find a method in a class and its ancestors, or only above it (`super()`)."""
    for owner in ancestors(ev, cls)[1 if above else 0 :]:
        for node in owner.node.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                return Function(owner.module, node, owner)
    return None


def attribute(ev: Evaluator, base: object, node: ast.Attribute) -> object:
    """Read an attribute of a value that is already known."""
    name = node.attr
    found: object
    match base:
        case Module() if name in base.names or base.is_package:
            found = ev.inside(base).global_value(name)
            found = Opaque(ast.unparse(node)) if isinstance(found, Opaque) else found
        case Class():
            found = _class_attribute(ev, base, name)
        case EnumMember() if name in {"name", "value"}:
            found = base.name if name == "name" else base.value
        case Instance():
            found = _of_instance(ev, base, name)
        case _:
            found = Opaque(ast.unparse(node))
    return found


def _of_instance(ev: Evaluator, instance: Instance, name: str) -> object:
    if name in instance.attributes:
        return instance.attributes[name]
    found = _class_attribute(ev, instance.cls, name)
    if isinstance(found, Function):
        return Function(found.module, found.node, found.owner, instance)
    return found


def _class_attribute(ev: Evaluator, cls: Class, name: str) -> object:
    if name == "__name__":
        return cls.name
    if name == "__doc__":
        return ast.get_docstring(cls.node) or ""
    for owner in ancestors(ev, cls):
        for statement in owner.node.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                    if target == name:
                        return field_default(ev, value, owner.module)
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    return _assigned(ev, cls, owner, statement)
    found = method(ev, cls, name)
    if found is None:
        return Opaque(f"{cls.name}.{name}")
    return Function(found.module, found.node, found.owner, cls)


def _assigned(ev: Evaluator, cls: Class, owner: Class, statement: ast.Assign) -> object:
    """Evaluate a class-level assignment, which may use the class's other constants."""
    constants = {
        name: node.value
        for name, node in owner.assigned().items()
        if isinstance(node, ast.Constant)
    }
    value = ev.inside(owner.module, dict(constants)).value(statement.value)
    target = statement.targets[0]
    if is_enum(ev, cls) and isinstance(target, ast.Name):
        return EnumMember(target.id, value)
    return value
