"""Work out what expressions of an engine's source are worth, without running the engine.

Only the subset of Python that fills parsers is understood. Everything else becomes
an `Opaque` that keeps its source text, and the reading goes on. Steps, depth and
sizes are bounded: a wheel given by hand can hold anything.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.errors import ConfigError
from infra.flag_sources.calls import call
from infra.flag_sources.classes import attribute
from infra.flag_sources.expressions import EXPRESSIONS
from infra.flag_sources.program import Import, Module, Program
from infra.flag_sources.statements import run
from infra.flag_sources.values import Arguments, Class, Declaration, Function, Opaque

MAX_STEPS = 5_000_000  # the largest engine takes under 300,000
MAX_DEPTH = 40  # of calls; the engines nest 8 deep

# What a wrong guess about a value can raise in the operations that we allow.
_WRONG = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


Native = Callable[["Evaluator", Arguments, ast.Call], object]


@dataclass(slots=True, kw_only=True)
class Reading:
    """What all evaluators of one reading share.

    `natives` replaces functions of the engine that do more than this subset can
    follow, by their name or by `Class.method`.
    """

    program: Program
    natives: Mapping[str, Native] = field(default_factory=dict)
    values: dict[tuple[str, str], object] = field(default_factory=dict)
    ancestry: dict[Class, list[Class]] = field(default_factory=dict)
    steps_left: int = field(default_factory=lambda: MAX_STEPS)


@dataclass(slots=True, kw_only=True)
class Evaluator:
    """Evaluate inside one module, with the local names of one function."""

    reading: Reading
    module: Module
    names: dict[str, object] = field(default_factory=dict)
    declared: list[Declaration] = field(default_factory=list)
    depth: int = 0

    def value(self, node: ast.expr) -> object:
        """Evaluate an expression; what cannot be known becomes Opaque."""
        self.step()
        try:
            if isinstance(node, ast.Call):
                return call(self, node)
            if isinstance(node, ast.Attribute):
                return attribute(self, self.value(node.value), node)
            evaluate = EXPRESSIONS.get(type(node))
            return evaluate(self, node) if evaluate else Opaque(ast.unparse(node))
        except _WRONG:
            return Opaque(ast.unparse(node))

    def run(self, statements: Sequence[ast.stmt]) -> None:
        """Execute statements for what they declare and for the names they bind."""
        run(self, statements)

    def name(self, name: str) -> object:
        """Look a name up: local, then global; Opaque for builtins and for what is outside."""
        return self.names[name] if name in self.names else self.global_value(name)

    def global_value(self, name: str) -> object:
        """Evaluate a module's global name once; Opaque while it is being evaluated."""
        key = (self.module.name, name)
        values = self.reading.values
        if key not in values:
            values[key] = Opaque(name)  # a name defined by itself stays unknown
            values[key] = self._global_value(name)
        return values[key]

    def _global_value(self, name: str) -> object:
        definition = self.module.names.get(name)
        match definition:
            case None:
                inner = self._module(f"{self.module.name}.{name}")
                return inner if inner and self.module.is_package else Opaque(name)
            case ast.ClassDef():
                return Class(self.module, definition)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Function(self.module, definition)
            case Import():
                return self.imported(definition)
            case _:
                return self.inside(self.module).value(definition)

    def imported(self, what: Import) -> object:
        """Follow an import into the wheels; Opaque if it leads out of them."""
        module = self._module(what.module)
        if not what.name:
            return module or Opaque(what.module)
        if module is not None and what.name in module.names:
            return self.inside(module).global_value(what.name)
        return self._module(f"{what.module}.{what.name}") or Opaque(f"{what.module}.{what.name}")

    def _module(self, name: str) -> Module | None:
        return self.reading.program.module(name)

    def inside(self, module: Module, names: dict[str, object] | None = None) -> Evaluator:
        """Make an evaluator for another scope of the same reading, one call deeper."""
        if self.depth >= MAX_DEPTH:
            raise RecursionLimitError
        return Evaluator(
            reading=self.reading,
            module=module,
            names=names or {},
            declared=self.declared,
            depth=self.depth + 1,
        )

    def step(self) -> None:
        """Count one step. Raises ConfigError when a source never comes to an end."""
        self.reading.steps_left -= 1
        if self.reading.steps_left < 0:
            raise ConfigError(
                f"{self.module.name}: takes too many steps to read. Give the wheel of a release."
            )


class RecursionLimitError(ValueError):
    """Calls nest too deep; the value at that place stays unknown."""
