"""Evaluate the expressions that are neither calls nor attributes, one function each."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from infra.flag_sources.classes import enum_members, is_enum
from infra.flag_sources.values import Class, EnumMember, Opaque

if TYPE_CHECKING:
    from infra.flag_sources.evaluator import Evaluator

MAX_LENGTH = 100_000  # of a text or a list; the longest help text has 3,000 letters
MAX_INTEGER = 2**64
MAX_SHIFT = 64

Evaluate = Callable[["Evaluator", Any], object]

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], object]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


def _constant(ev: Evaluator, node: ast.Constant) -> object:
    return node.value


def _name(ev: Evaluator, node: ast.Name) -> object:
    return ev.name(node.id)


def _subscript(ev: Evaluator, node: ast.Subscript) -> object:
    base = ev.value(node.value)
    if isinstance(node.slice, ast.Slice):
        cut = (node.slice.lower, node.slice.upper, node.slice.step)
        bounds: list[Any] = [None if each is None else ev.value(each) for each in cut]
        return base[slice(*bounds)] if isinstance(base, list | tuple | str) else _text(node)
    key: Any = ev.value(node.slice)
    match base:
        case dict() | list() | tuple() | str():
            return base[key]
        case Class() if is_enum(ev, base):
            return next(
                member
                for member in enum_members(ev, base)
                if isinstance(member, EnumMember) and member.name == key
            )
        case _:
            return _text(node)


def _sequence(ev: Evaluator, node: ast.List | ast.Tuple | ast.Set) -> object:
    found: list[object] = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            found += items(ev, ev.value(element.value)) or [_text(element.value)]
        else:
            found.append(ev.value(element))
    return tuple(found) if isinstance(node, ast.Tuple) else found


def too_long(value: object) -> bool:
    """Say whether a range gives more than is ever listed; `len` fails on the largest."""
    return isinstance(value, range) and bool(value[MAX_LENGTH:])


def items(ev: Evaluator, value: object) -> list[Any] | None:
    """List what a loop over a value gives; None if that is not known."""
    match value:
        case Class() if is_enum(ev, value):
            return enum_members(ev, value)
        case range() if too_long(value):
            return None
        case list() | tuple() | set() | frozenset() | dict() | range() | str():
            return list(value)
        case _:
            return None


def _dict(ev: Evaluator, node: ast.Dict) -> object:
    found: dict[object, object] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            inner = ev.value(value)
            found |= inner if isinstance(inner, dict) else {}
        else:
            known = ev.value(key)
            if isinstance(known, EnumMember):
                known = known.value
            found[ast.unparse(key) if isinstance(known, Opaque) else known] = ev.value(value)
    return found


def _joined(ev: Evaluator, node: ast.JoinedStr) -> object:
    return _bounded("".join(_joined_parts(ev, node)))


def _joined_parts(ev: Evaluator, node: ast.JoinedStr) -> Iterator[str]:
    for part in node.values:
        match part:
            case ast.FormattedValue(value=inner):
                yield shown(ev.value(inner))
            case ast.Constant(value=value):
                yield str(value)


def shown(value: object) -> str:
    """Write a value as `str()` does; in braces if it is not known."""
    match value:
        case Opaque():
            return f"{{{value.text}}}"
        case EnumMember():
            return str(value.value)
        case _:
            return str(value)[:MAX_LENGTH]


def _binary(ev: Evaluator, node: ast.BinOp) -> object:
    left, right = ev.value(node.left), ev.value(node.right)
    if isinstance(node.op, ast.Mod) and isinstance(left, str):
        return _text(node)  # a format can ask for a gigabyte of spaces
    if isinstance(right, Opaque) and isinstance(node.op, ast.Add):
        # What is known of a text or a list is worth keeping; a list shows that more follows.
        if isinstance(left, str):
            return left
        if isinstance(left, list):
            return [*left, right]
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        return _text(node)
    _refuse_growth(node.op, left, right)
    return _bounded(_BINARY[type(node.op)](left, right))


def _refuse_growth(op: ast.operator, left: object, right: object) -> None:
    """Raise ValueError before an operation that could take a gigabyte."""
    numbers = [side for side in (left, right) if isinstance(side, int)]
    if any(abs(number) > MAX_INTEGER for number in numbers):
        raise ValueError("a number is too large")
    if isinstance(op, ast.Pow | ast.LShift) and not (
        isinstance(right, int | float) and abs(right) <= MAX_SHIFT
    ):
        raise ValueError("an exponent is too large")
    if isinstance(op, ast.Mult) and len(numbers) == 1:
        sized = right if numbers[0] is left else left
        if isinstance(sized, str | list | tuple) and len(sized) * numbers[0] > MAX_LENGTH:
            raise ValueError("a repetition is too long")


def _bounded(value: object) -> object:
    if isinstance(value, str | list | tuple) and len(value) > MAX_LENGTH:
        raise ValueError("a value is too long")
    return value


def _unary(ev: Evaluator, node: ast.UnaryOp) -> object:
    value = ev.value(node.operand)
    return _text(node) if isinstance(value, Opaque) else _UNARY[type(node.op)](value)


def _bool(ev: Evaluator, node: ast.BoolOp) -> object:
    stop_at = isinstance(node.op, ast.Or)
    value: object = None
    for each in node.values:
        value = ev.value(each)
        if isinstance(value, Opaque) or bool(value) is stop_at:
            break
    return value


def _compare(ev: Evaluator, node: ast.Compare) -> object:
    left, right = ev.value(node.left), ev.value(node.comparators[0])
    if len(node.ops) > 1 or isinstance(left, Opaque) or isinstance(right, Opaque):
        return _text(node)
    return _COMPARE[type(node.ops[0])](left, right)


def _conditional(ev: Evaluator, node: ast.IfExp) -> object:
    test = ev.value(node.test)
    # Where the machine decides, the first side is the usual one in all engines.
    return ev.value(node.body if isinstance(test, Opaque) or test else node.orelse)


def _comprehension(
    ev: Evaluator, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> object:
    generator = node.generators[0]
    found = items(ev, ev.value(generator.iter))
    if found is None or len(node.generators) > 1:
        return _text(node)
    inner = ev.inside(ev.module, dict(ev.names))
    results: list[Any] = []
    for item in found:
        bind(inner, generator.target, item)
        if all(_holds(inner, test) for test in generator.ifs):
            parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
            results.append([inner.value(part) for part in parts])
    if isinstance(node, ast.DictComp):
        return dict(results)
    return [each[0] for each in results]


def _holds(ev: Evaluator, test: ast.expr) -> bool:
    value = ev.value(test)
    return not isinstance(value, Opaque) and bool(value)


def bind(ev: Evaluator, target: ast.expr, value: object) -> None:
    """Bind a name, or several names to the parts of a value."""
    match target:
        case ast.Name(id=name):
            ev.names[name] = value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            known = isinstance(value, list | tuple) and len(value) == len(elements)
            parts = list(value) if isinstance(value, list | tuple) and known else None
            for index, element in enumerate(elements):
                bind(ev, element, parts[index] if parts else _text(element))


def _text(node: ast.AST) -> Opaque:
    return Opaque(ast.unparse(node))


EXPRESSIONS: Mapping[type[ast.expr], Evaluate] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Subscript: _subscript,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.JoinedStr: _joined,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
}
