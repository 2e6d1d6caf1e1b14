"""Name the values that reading source code can give beside plain Python data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from infra.flag_sources.program import Module

Plain = str | int | float | bool | bytes | None


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that only a running engine knows; its source text stands for it."""

    text: str

    @property
    def name(self) -> str:
        """Return the last part of a dotted name."""
        return self.text.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Parser:
    """An argparse parser, or a group of one."""


@dataclass(frozen=True, slots=True, eq=False)
class Class:
    """A class of the source; its bases and attributes are read in `classes`."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Return the name it was defined under."""
        return self.node.name

    def assigned(self) -> dict[str, ast.expr]:
        """Map the names assigned in the body without annotation: an enum's members."""
        return {
            statement.targets[0].id: statement.value
            for statement in self.node.body
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        }

    def decorators(self) -> Iterator[str]:
        """Give the last names of its decorators: `dataclass`, `config`."""
        for decorator in self.node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            yield ast.unparse(target).rpartition(".")[2]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function or method; `receiver` is what its first parameter is bound to."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: Class | None = None
    receiver: object = None


@dataclass(slots=True, eq=False)
class Instance:
    """An object whose attributes its `__init__` has set."""

    cls: Class
    attributes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnumMember:
    """One member of an enum class."""

    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Arguments:
    """The evaluated arguments of a call."""

    positional: list[object]
    keywords: dict[str, object]

    def get(self, index: int, keyword: str) -> object:
        """Return an argument given by position or by keyword; None if it is not given."""
        if index < len(self.positional):
            return self.positional[index]
        return self.keywords.get(keyword)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One `add_argument` call: its flags, its keywords, and where it was written."""

    flags: tuple[str, ...]
    keywords: dict[str, object]
    module: Module


def is_known(value: object) -> bool:
    """Say whether a value can be written into a table."""
    match value:
        case list() | tuple() | set() | frozenset():
            return all(is_known(item) for item in value)
        case dict():
            return all(is_known(item) for item in value.values())
        case EnumMember():
            return is_known(value.value)
        case _:
            return isinstance(value, Plain | range)


def plain(value: object) -> object:
    """Turn a known value into what JSON can hold; what is not known stays as it is."""
    match value:
        case EnumMember():
            return plain(value.value)
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=str)
        case list() | tuple() | range():
            return [plain(item) for item in value]
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case _:
            return value
