"""Read a shell script as far as it takes to see which programs it starts, and how.

No shell: branches are not followed and nothing is run. What that leaves open keeps its
`$`, and nobody judges it.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Env = Mapping[str, str | None]  # None: set, but nobody knows to what

_ENDS = frozenset("();&|\n")
_BRANCHES = frozenset({"if", "for", "while", "until", "case", "select", "&&", "||"})
_EXPORTS = frozenset({"export", "declare", "typeset", "readonly"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|\((\w+)\)|(\w+))")
_UNKNOWN_WORD = "$_"  # the last word of the last command: never known
_MAX_NESTING = 8
# Quoted text is kept, whatever is in it; a comment starts a word.
_PARTS = re.compile(
    r"""(?P<kept>'[^']*'|"(?:\\.|[^"\\])*"|\\.|\S\#)
    |(?P<comment>(?<!\S)\#[^\n]*)
    |(?P<run>\$\([^()]*\)|`[^`]*`)
    |(?P<reference>\$(?:\{\w+\}|\w+))
    |(?P<redirection>(?:(?<!\S)\d+|(?<!\S)&)?(?:<<<|<<-?|>>|>\||[<>]&|<>|[<>])
        \s*(?:'[^']*'|"[^"]*"|[^\s;&|()<>'"]+))
    """,
    re.VERBOSE,
)


class Simple(NamedTuple):
    """One command of a script: its words, and what the script exported for it."""

    words: tuple[str, ...]
    exported: Env


def simple_commands(script: str, env: Env) -> Iterator[Simple]:
    """Yield the commands of a script, with variables filled in where their value is known."""
    first = _tokens(script, env)
    assigned, exported = _assigned(first)
    known = {**env, **assigned}
    for words in _split(_tokens(script, known) if assigned else first):
        texts = tuple(expanded(word, known) for word in words)
        yield Simple(texts, {name: assigned.get(name) for name in exported})


def assignments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that stand before a program: `env A=1 B=2 python3`."""
    for word in words:
        if found := _ASSIGNMENT.fullmatch(word):
            yield found[1], found[2]


def expanded(text: str, env: Env) -> str:
    """Fill in variables whose value is known."""

    def value(found: re.Match[str]) -> str:
        known = env.get(next(group for group in found.groups() if group))
        return found[0] if known is None else known

    return _REFERENCE.sub(value, text)


def _tokens(script: str, env: Env) -> list[str]:
    lexer = shlex.shlex(
        _plain(script.replace("\\\n", " "), env), posix=True, punctuation_chars="();&|\n"
    )
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed: the shell will say so
        return []


def _split(tokens: Sequence[str]) -> Iterator[list[str]]:
    current: list[str] = []
    for token in tokens:
        if token and set(token) <= _ENDS:
            yield current
            current = []
        else:
            current.append(token)
    yield current


def _plain(text: str, env: Env) -> str:
    """Drop comments and redirections, and fill in what stands outside quotes."""

    def part(found: re.Match[str]) -> str:
        if found["kept"]:
            return found[0]
        if found["run"]:  # `$(NAME)` is Kubernetes' own, filled in before the shell starts
            inner = re.fullmatch(r"\$\((\w+)\)", found[0])
            return _unquoted(found[0], env, inner[1]) if inner else _UNKNOWN_WORD
        if found["reference"]:
            return _unquoted(found[0], env, found[0].strip("${}"))
        return ""

    for _ in range(_MAX_NESTING):
        plain = _PARTS.sub(part, text)
        if plain == text:
            break
        text = plain
    return text


def _unquoted(text: str, env: Env, name: str) -> str:
    """Fill in a variable the way a shell does outside quotes: at spaces it becomes words."""
    value = env.get(name)
    if value is None:
        return "${" + name + "}"
    if "$" in value:
        return shlex.quote(value) if value.split() == [value] else _UNKNOWN_WORD
    return " ".join(shlex.quote(word) for word in value.split())


def _assigned(tokens: Sequence[str]) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Find what a script sets, and the names that it exports."""
    values: defaultdict[str, list[str]] = defaultdict(list)
    exported: list[str] = []
    branches = not _BRANCHES.isdisjoint(tokens)
    for words in _split(tokens):
        exports = bool(words) and words[0] in _EXPORTS
        rest = words[1:] if exports else words
        own = list(assignments(rest))
        if exports:
            exported += [name for name, _ in own] + [word for word in rest if word.isidentifier()]
        elif len(own) != len(rest):  # for one program alone
            continue
        for name, value in own:
            values[name].append(value)
    known = {
        name: given[0] if len(given) == 1 and "$" not in given[0] and not branches else None
        for name, given in values.items()
    }
    return known, tuple(dict.fromkeys(exported))
