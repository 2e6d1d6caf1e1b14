"""Find names of environment variables, in source files and in native libraries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from infra.flag_sources.program import Program, parse

_READERS = re.compile(r"getenv|environ\.get|env_or_default|get_\w*env")


def comment_above(text: str, line: int) -> str:
    """Join the comment lines right above a line (counted from 1)."""
    lines = text.splitlines()
    words: list[str] = []
    while line > 1 and lines[line - 2].lstrip().startswith("#"):
        line -= 1
        words.insert(0, lines[line - 1].strip("# \t"))
    return " ".join(words)


def named_in_source(program: Program, pattern: str) -> dict[str, dict[str, object]]:
    """Map variables whose name is a text in the source to their literal default, if one is given.

    Args:
        program: the wheels.
        pattern: what such a name looks like as a whole.
    """
    name = re.compile(pattern)
    quoted = re.compile(f"[\"'](?:{pattern})[\"']")  # most files have the name without quotes
    found: dict[str, dict[str, object]] = {}
    for member in program.members(".py"):
        text = program.text(member)
        tree = parse(text) if quoted.search(text) else None
        for node in ast.walk(tree) if tree else ():
            match node:
                case ast.Constant(value=str() as value) if name.fullmatch(value):
                    found.setdefault(value, {})
                case ast.Call(
                    func=function,
                    args=[ast.Constant(value=str() as value), ast.Constant(value=default)],
                ) if name.fullmatch(value) and _READERS.search(ast.unparse(function)):
                    found.setdefault(value, {})["default"] = default
    return found


def named_in_libraries(program: Program, prefix: str, sure: Iterable[str]) -> dict[str, bool]:
    """Map variables that native libraries name to whether the end of the name is a guess.

    Texts lie in a library without separators: `DYN_ADYN_BExpected`. A run of capitals is
    cut at each prefix; its last name is a guess when small letters follow (the E may
    belong to `Expected`), and so is a name that another one begins.

    Args:
        program: the wheels; members that end in `.so` are read.
        prefix: what all names begin with.
        sure: names known from elsewhere; they are not given again.
    """
    known, alone, guessed = set(sure), set(sure), set[str]()
    for member in program.members(".so"):
        for name, guess in _cut(program.library(member), prefix):
            (guessed if guess else alone).add(name)
    found = dict.fromkeys(alone - known, False)
    # `X` and then "Expected" also reads as `XE`: leave that out when `X` itself is known.
    found |= {name: True for name in guessed - alone if name[:-1] not in alone}
    return {name: guess or _runs_on(name, alone, prefix) for name, guess in found.items()}


def _cut(data: bytes, prefix: str) -> Iterator[tuple[str, bool]]:
    """Give the names in a run of capitals, each with whether its end is a guess."""
    for run in re.finditer(prefix.encode() + rb"[A-Z0-9_]+", data):
        parts = run.group().decode().split(prefix)[1:]
        runs_on = data[run.end() : run.end() + 1].islower()
        for index, part in enumerate(parts):
            if part and not part.endswith("_"):  # with a line at its end it begins a family
                yield prefix + part, runs_on and index == len(parts) - 1


def _runs_on(name: str, known: set[str], prefix: str) -> bool:
    """Say whether a known name ends in the middle of a word of this one: `DYN_ENVIRONMENTCLI`."""
    return any(
        name[:end] in known and name[end].isalpha() for end in range(len(prefix) + 4, len(name) - 1)
    )
