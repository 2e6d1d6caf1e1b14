"""Find modules, and what their names stand for, in the Python source of some wheels.

Purely about text: a definition is a node of the syntax tree. What its value is,
`evaluator` works out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fleet.errors import ConfigError
from infra.flag_sources.wheel import Wheel

_TESTS = frozenset({"test", "tests"})


class Import(NamedTuple):
    """A name that comes from another module; `name` is empty for the module itself."""

    module: str
    name: str


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.expr | Import


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A parsed source file and what its global names stand for."""

    name: str
    is_package: bool
    text: str
    tree: ast.Module
    names: dict[str, Definition]


@dataclass(slots=True, eq=False)
class Program:
    """The source of one engine, of one wheel or of several."""

    wheels: Sequence[Wheel]
    _owners: dict[str, Wheel] = field(default_factory=dict)
    _modules: dict[str, Module | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Remember which wheel holds which member."""
        self._owners = {member: wheel for wheel in self.wheels for member in wheel.members}

    def module(self, name: str) -> Module | None:
        """Parse a module by its dotted name; None if the wheels have none that can be parsed."""
        if name not in self._modules:
            self._modules[name] = self._parse(name)
        return self._modules[name]

    def need(self, *names: str) -> Module:
        """Give the first of some modules that exists. Raises ConfigError if none does."""
        for name in names:
            if (module := self.module(name)) is not None:
                return module
        wheels = ", ".join(wheel.file.name for wheel in self.wheels)
        path = names[0].replace(".", "/")
        raise ConfigError(
            f"{wheels}: has no {path}.py that can be read, so its flags cannot be read. "
            "Give the wheel of a release of this engine."
        )

    def members(self, suffix: str) -> list[str]:
        """List the members that end in `suffix`, in order, without tests."""
        return sorted(
            member
            for member in self._owners
            if member.endswith(suffix) and not _TESTS.intersection(member.split("/"))
        )

    def text(self, member: str) -> str:
        """Read a source file of any of the wheels."""
        return self._owners[member].text(member)

    def library(self, member: str) -> bytes:
        """Read a native library of any of the wheels."""
        return self._owners[member].library(member)

    def _parse(self, name: str) -> Module | None:
        path = name.replace(".", "/")
        for member, is_package in ((f"{path}.py", False), (f"{path}/__init__.py", True)):
            if member in self._owners:
                tree = parse(text := self.text(member))
                if tree is None:
                    return None
                names = dict(_definitions(tree.body, _package(name, is_package)))
                return Module(name, is_package, text, tree, names)
        return None


def parse(text: str) -> ast.Module | None:
    """Parse source text; None for what this interpreter cannot parse."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imports(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Import]]:
    """Give the names that an import statement binds; `package` resolves leading dots."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname or top), Import(alias.name if alias.asname else top, "")
        return
    base = statement.module or ""
    if statement.level:
        parts = package.split(".")
        parts = parts[: len(parts) - statement.level + 1]
        base = ".".join([*parts, base] if base else parts)
    for alias in statement.names:
        yield (alias.asname or alias.name), Import(base, alias.name)


def _package(name: str, is_package: bool) -> str:
    return name if is_package else name.rpartition(".")[0]


def package_of(module: Module) -> str:
    """Name the package that a module's relative imports start from."""
    return _package(module.name, module.is_package)


def _definitions(body: Sequence[ast.stmt], package: str) -> Iterator[tuple[str, Definition]]:
    """Give the global names in the order in which a later one replaces an earlier one."""
    classes: set[str] = set()
    for statement in body:
        for name, definition in _of_statement(statement, package):
            if isinstance(definition, ast.ClassDef):
                classes.add(name)
            # A class that is rebuilt under its own name (`X = convert(X)`) stays the class.
            if not (name in classes and isinstance(definition, ast.expr)):
                yield name, definition


def _of_statement(statement: ast.stmt, package: str) -> Iterator[tuple[str, Definition]]:
    match statement:
        case ast.ImportFrom() | ast.Import():
            yield from imports(statement, package)
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield statement.name, statement
        case ast.Assign():
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.If():
            # Imports for type checkers hold the real types, their `else` only stand-ins;
            # of any other fork the first side counts, unless only the second has the name.
            if "TYPE_CHECKING" not in ast.unparse(statement.test):
                yield from _definitions(statement.orelse, package)
            yield from _definitions(statement.body, package)
        case ast.Try() | ast.With():
            yield from _definitions(statement.body, package)
