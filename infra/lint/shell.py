"""Read a shell script as far as it takes to see which programs it starts, and how.

No shell: branches are not followed and nothing is run. What that leaves open keeps its
`$`, and nobody judges it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from infra.lint.variables import REFERENCE, UNKNOWN_WORD, Env, Variables

_BRANCHES = frozenset({"if", "for", "while", "until", "case", "select"})
_EXPORTS = frozenset({"export", "declare", "typeset", "readonly"})
_CHANGES = frozenset({"unset", "read", "for", "select"})  # what they set is never known
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
# They stand for a `$` and a backtick that are only characters, until the others are filled in.
_DOLLAR, _BACKTICK = "\ue000", "\ue001"
_MAX_NESTING = 8
MAX_SCRIPT_CHARS = 128 * 1024  # Linux starts no program with a longer word (MAX_ARG_STRLEN)
_RUN = r"\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\([^()]*\)|`[^`]*`"
_IN_QUOTES = re.compile(rf"\\(?P<escaped>.)|{_RUN}", re.DOTALL)
_PARTS = re.compile(
    rf"""(?P<joined>\\\n)
    |(?P<single>'[^']*')
    |(?P<double>"(?>\\.|{_RUN}|[^"\\])*+")
    |(?P<escaped>\\.)
    |(?P<comment>(?<![^\s;&|()])(?<!\\\s)\#[^\n]*)
    |(?P<list>(?<!\S)(?P<name>[A-Za-z_]\w*)\+?=\([^()]*\))
    |(?P<run>{_RUN})
    |(?P<reference>{REFERENCE})
    |(?P<document>(?<!<)<<(?!<)-?[ \t]*(?P<quote>['"]?)(?P<end>\w+)(?P=quote)(?P<rest>[^\n]*)
        \n.*?(?:^[ \t]*(?P=end)[ \t]*$|\Z))
    |(?P<redirection>(?:(?<!\S)\d+|(?<!\S)&)?(?:<<<|<<-?|>>|>\||[<>]&|<>|[<>])
        \s*(?:'[^']*'|"(?>\\.|[^"\\])*+"|\\.|[^\s;&|()<>'"\\])++)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
# What is left of a script then.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+)|(?P<end>[();&|\n]+)
    |(?P<word>(?:'[^']*'|"(?>\\.|[^"\\])*+"|\\.|[^\s'"\\();&|]|[^\S \t\r\n])++)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTES = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|\\(?P<escaped>.)""", re.DOTALL
)
_ESCAPED = re.compile(r"""\\(["\\])""")


class _Script(NamedTuple):
    commands: list[list[str]]
    branches: bool  # what is set may not be


class Simple(NamedTuple):
    """One command of a script: its words, and what the script exported for it."""

    words: tuple[str, ...]
    exported: Env


def simple_commands(script: str, env: Env) -> Iterator[Simple]:
    """Yield the commands of a script, with variables filled in where their value is known."""
    if len(script) >= MAX_SCRIPT_CHARS:
        return
    script = Variables(env).fill_first(script)
    first = _read(script, Variables(env))
    assigned, exported = _assigned(first)
    known = Variables({**env, **assigned})
    exports = {name: _final(assigned.get(name)) for name in exported}
    whole = _read(script, known) if assigned else first
    for words in whole.commands:
        yield Simple(tuple(_final(known.fill(word)) for word in words), exports)


def assignments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that stand before a program: `env A=1 B=2 python3`."""
    for word in words:
        if (found := _ASSIGNMENT.fullmatch(word)) and not found[2]:
            yield found[1], found[3]


@overload
def _final(word: str) -> str: ...
@overload
def _final(word: None) -> None: ...
def _final(word: str | None) -> str | None:
    return None if word is None else word.replace(_DOLLAR, "$").replace(_BACKTICK, "`")


def _read(script: str, known: Variables) -> _Script:
    """Split a script into commands, and those into words."""
    plain = _plain(script, known)
    commands: list[list[str]] = [[]]
    branches = False
    place = 0
    while place < len(plain):
        found = _TOKEN.match(plain, place)
        if found is None:  # a quote that is not closed: the shell will say so
            return _Script([], branches=False)
        if found["end"]:
            commands.append([])
            branches = branches or found["end"] in ("&&", "||")
        elif found["word"]:
            commands[-1].append(_QUOTES.sub(_bare, found["word"]))
        place = found.end()
    starts = {word for words in commands for word in words[:2]}
    return _Script(commands, branches or not starts.isdisjoint(_BRANCHES))


def _bare(found: re.Match[str]) -> str:
    """Take away quotes and backslashes."""
    if found["double"] is not None:
        return _ESCAPED.sub(r"\1", found["double"])
    return found["single"] or found["escaped"] or ""


def _plain(text: str, known: Variables) -> str:
    """Drop comments, redirections and here-documents, and fill in what stands outside quotes."""

    def part(found: re.Match[str]) -> str:
        stays = ""
        match found.lastgroup:
            case "single":
                stays = found[0].replace("$", _DOLLAR).replace("`", _BACKTICK)
            case "double":
                stays = _IN_QUOTES.sub(_quoted, found[0])
            case "escaped":
                stays = {"\\$": _DOLLAR, "\\`": _BACKTICK}.get(found[0], found[0])
            case "list":
                stays = f"{found['name']}={UNKNOWN_WORD}"
            case "run":
                stays = UNKNOWN_WORD
            case "reference":
                stays = known.as_words(found[0])
            case "document":
                stays = found["rest"]
        return stays

    for _ in range(_MAX_NESTING):
        plain = _PARTS.sub(part, text)
        if plain == text:
            break
        text = plain
    return text


def _quoted(found: re.Match[str]) -> str:
    """Take what a backslash or a command means inside double quotes."""
    if found["escaped"] is None:
        return UNKNOWN_WORD
    return {"\n": "", "$": _DOLLAR, "`": _BACKTICK}.get(found["escaped"], found[0])


def _assigned(script: _Script) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Find what a script sets, and the names that it exports."""
    values: defaultdict[str, list[str | None]] = defaultdict(list)
    exported: list[str] = []
    for words in script.commands:
        start = words[0] if words else ""
        if start in _CHANGES:
            for name in filter(str.isidentifier, words[1:]):
                values[name].append(None)
            continue
        rest = words[1:] if start in _EXPORTS else words
        own = [found for word in rest if (found := _ASSIGNMENT.fullmatch(word))]
        if start in _EXPORTS:
            exported += [found[1] for found in own] + [word for word in rest if word.isidentifier()]
        elif len(own) != len(rest):  # for one program alone
            continue
        for found in own:
            values[found[1]].append(None if found[2] or script.branches else found[3])
    known = {
        name: given[0] if len(given) == 1 and "$" not in (given[0] or "") else None
        for name, given in values.items()
    }
    return known, tuple(dict.fromkeys(exported))
