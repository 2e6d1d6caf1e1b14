"""Follow calls: into functions of the source, into argparse, into harmless builtins."""

from __future__ import annotations

import ast
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

from infra.flag_sources.classes import attribute, is_dataclass, is_enum, method
from infra.flag_sources.expressions import items, too_long
from infra.flag_sources.statements import Returned
from infra.flag_sources.values import (
    Arguments,
    Class,
    Declaration,
    Function,
    Instance,
    Opaque,
    Parser,
)

if TYPE_CHECKING:
    from infra.flag_sources.evaluator import Evaluator

_GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group"})
_PARSERS = frozenset({"ArgumentParser", "FlexibleArgumentParser"})
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        {"join", "lower", "upper", "replace", "split", "strip", "lstrip", "rstrip"}
        | {"startswith", "endswith", "title", "removeprefix", "removesuffix"}
    ),
    list: frozenset({"append", "extend", "remove", "pop", "insert", "copy", "index"}),
    dict: frozenset({"items", "keys", "values", "get", "pop", "update", "setdefault", "copy"}),
    set: frozenset({"add", "union", "update", "copy"}),
}
_NEEDS_KNOWN = frozenset({"join", "remove"})  # of what is unknown they would make a wrong value
_BUILTINS: Mapping[str, Callable[..., object]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "sorted": sorted,
    "dict": dict,
    "len": len,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "max": max,
    "min": min,
    "range": range,
}


def call(ev: Evaluator, node: ast.Call) -> object:
    """Evaluate a call; `add_argument` of a parser is noted as a declaration."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return _method_call(ev, node, function)
    name = function.id if isinstance(function, ast.Name) else ""
    return _apply(ev, node, name, ev.value(function))


def _method_call(ev: Evaluator, node: ast.Call, function: ast.Attribute) -> object:
    name = function.attr
    if name == "add_argument":
        declare(ev, arguments(ev, node))
        return Opaque("action")
    if name in _GROUPS:
        return Parser()
    if isinstance(function.value, ast.Call) and ast.unparse(function.value.func) == "super":
        return _super_call(ev, node, name)
    base = ev.value(function.value)
    for kind, allowed in _METHODS.items():
        if isinstance(base, kind) and name in allowed:
            return _plain_method(ev, node, base, name)
    return _apply(ev, node, name, attribute(ev, base, function))


def _plain_method(ev: Evaluator, node: ast.Call, base: Any, name: str) -> object:
    given = arguments(ev, node)
    if name in _NEEDS_KNOWN and any(isinstance(each, Opaque) for each in given.positional):
        return Opaque(ast.unparse(node))
    value = getattr(base, name)(*given.positional, **given.keywords)
    return list(value) if isinstance(value, KeysView | ValuesView | ItemsView) else value


def _super_call(ev: Evaluator, node: ast.Call, name: str) -> object:
    owner = ev.names.get("__class__")
    found = method(ev, owner, name, above=True) if isinstance(owner, Class) else None
    if found is None:
        return Opaque(ast.unparse(node))
    receiver = ev.names.get("self", ev.names.get("cls"))
    bound = Function(found.module, found.node, found.owner, receiver)
    return invoke(ev, bound, arguments(ev, node))


def _apply(ev: Evaluator, node: ast.Call, name: str, target: object) -> object:
    natives = ev.reading.natives
    owner = target.owner if isinstance(target, Function) else None
    native = natives.get(f"{owner.name}.{name}") if owner else natives.get(name)
    if native is not None:
        return native(ev, arguments(ev, node), node)
    match target:
        case Function():
            return invoke(ev, target, arguments(ev, node))
        case Class():
            return _instantiate(ev, node, target)
        case Opaque(text=text) if name in _BUILTINS and text == name:
            return _builtin(ev, node, name)
        case _:
            return Parser() if name in _PARSERS else Opaque(ast.unparse(node))


def _builtin(ev: Evaluator, node: ast.Call, name: str) -> object:
    given = arguments(ev, node)
    values = [items(ev, each) if isinstance(each, Class) else each for each in given.positional]
    if any(isinstance(each, Opaque) or too_long(each) for each in values):
        return Opaque(ast.unparse(node))
    return _BUILTINS[name](*values, **given.keywords)


def _instantiate(ev: Evaluator, node: ast.Call, cls: Class) -> object:
    if cls.name in _PARSERS:
        return Parser()
    if is_enum(ev, cls) or is_dataclass(cls):
        return Opaque(ast.unparse(node))
    instance = Instance(cls)
    found = method(ev, cls, "__init__")
    if found is not None:
        invoke(ev, Function(found.module, found.node, found.owner, instance), arguments(ev, node))
    return instance


def arguments(ev: Evaluator, node: ast.Call) -> Arguments:
    """Evaluate what a call gives, with `*` and `**` unpacked."""
    positional: list[object] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            positional += items(ev, ev.value(argument.value)) or []
        else:
            positional.append(ev.value(argument))
    keywords: dict[str, object] = {}
    for keyword in node.keywords:
        value = ev.value(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, dict):
            keywords |= value
    return Arguments(positional, keywords)


def declare(ev: Evaluator, given: Arguments) -> None:
    """Note one `add_argument`, unless none of its flags is known."""
    flags = tuple(flag for flag in given.positional if isinstance(flag, str))
    if flags:
        ev.declared.append(Declaration(flags, given.keywords, ev.module))


def invoke(ev: Evaluator, function: Function, given: Arguments) -> object:
    """Run a function's body with its parameters bound; return its value."""
    signature = function.node.args
    parameters = [each.arg for each in [*signature.posonlyargs, *signature.args]]
    names = _defaults(ev, function, parameters)
    if function.owner is not None and not _is_static(function):
        names[parameters[0]] = function.owner if function.receiver is None else function.receiver
        parameters = parameters[1:]
    names |= dict(zip(parameters, given.positional, strict=False))
    named = {*parameters, *(each.arg for each in signature.kwonlyargs)}
    names |= {key: value for key, value in given.keywords.items() if key in named}
    if signature.kwarg is not None:
        rest = {key: value for key, value in given.keywords.items() if key not in named}
        names[signature.kwarg.arg] = rest
    names["__class__"] = function.owner
    try:
        ev.inside(function.module, names).run(function.node.body)
    except Returned as returned:
        return returned.value
    return None


def _defaults(ev: Evaluator, function: Function, parameters: list[str]) -> dict[str, object]:
    signature = function.node.args
    inside = ev.inside(function.module)
    optional = parameters[len(parameters) - len(signature.defaults) :]
    names = {
        name: inside.value(node) for name, node in zip(optional, signature.defaults, strict=True)
    }
    for each, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
        if default is not None:
            names[each.arg] = inside.value(default)
    return names


def _is_static(function: Function) -> bool:
    return any(ast.unparse(each) == "staticmethod" for each in function.node.decorator_list)
