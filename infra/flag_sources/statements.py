"""Follow statements for the names they bind and the arguments they declare."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from infra.flag_sources.expressions import bind, items
from infra.flag_sources.program import imports, package_of
from infra.flag_sources.values import Function, Instance, Opaque, is_known

if TYPE_CHECKING:
    from infra.flag_sources.evaluator import Evaluator


class Returned(Exception):  # noqa: N818  # leaves the function, is no error
    """Leave a function with its value."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class NextRound(Exception):  # noqa: N818  # leaves one round of a loop, is no error
    """Leave one round of a loop."""


def run(ev: Evaluator, statements: Sequence[ast.stmt]) -> None:
    """Execute statements in order; raises Returned at a return."""
    for statement in statements:
        ev.step()
        _execute(ev, statement)


def _execute(ev: Evaluator, statement: ast.stmt) -> None:
    match statement:
        case ast.Expr(value=expression):
            ev.value(expression)
        case ast.Return(value=expression):
            raise Returned(None if expression is None else ev.value(expression))
        case ast.Continue():
            raise NextRound
        case ast.If():
            _if(ev, statement)
        case ast.For():
            _for(ev, statement)
        case ast.With(body=body) | ast.AsyncWith(body=body) | ast.Try(body=body):
            run(ev, body)
        case ast.Delete(targets=targets):
            for target in targets:
                _delete(ev, target)
        case _:
            _bind(ev, statement)


def _bind(ev: Evaluator, statement: ast.stmt) -> None:
    match statement:
        case ast.Assign(targets=targets, value=expression):
            value = ev.value(expression)
            for target in targets:
                assign(ev, target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as expression):
            assign(ev, target, ev.value(expression))
        case ast.AugAssign(target=target, op=op, value=expression):
            before = ast.parse(ast.unparse(target), mode="eval").body
            assign(ev, target, ev.value(ast.BinOp(before, op, expression)))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            ev.names[name] = Function(ev.module, statement)
        case ast.Import() | ast.ImportFrom():
            for name, what in imports(statement, package_of(ev.module)):
                ev.names[name] = ev.imported(what)


def assign(ev: Evaluator, target: ast.expr, value: object) -> None:
    """Bind names, set a dictionary's item or an object's attribute."""
    match target:
        case ast.Subscript(value=inner, slice=key):
            base = ev.value(inner)
            if isinstance(base, dict):
                base[ev.value(key)] = value
        case ast.Attribute(value=inner, attr=name):
            base = ev.value(inner)
            if isinstance(base, Instance):
                base.attributes[name] = value
        case _:
            bind(ev, target, value)


def _delete(ev: Evaluator, target: ast.expr) -> None:
    if isinstance(target, ast.Subscript):
        base = ev.value(target.value)
        if isinstance(base, dict):
            base.pop(ev.value(target.slice), None)


def _if(ev: Evaluator, statement: ast.If) -> None:
    test = ev.value(statement.test)
    if not isinstance(test, Opaque):
        run(ev, statement.body if test else statement.orelse)
        return
    # The machine decides: what either side declares exists somewhere.
    for side in (statement.body, statement.orelse):
        try:
            run(ev, side)
        except Returned as returned:
            # A bare return says only that there is nothing to do on some machines.
            if returned.value is not None and is_known(returned.value):
                raise
        except NextRound:
            continue


def _for(ev: Evaluator, statement: ast.For) -> None:
    for item in items(ev, ev.value(statement.iter)) or []:
        bind(ev, statement.target, item)
        try:
            run(ev, statement.body)
        except NextRound:
            continue
