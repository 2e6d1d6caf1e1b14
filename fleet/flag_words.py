"""Read a command line the way the engines' own parsers do.

All of them are argparse with additions: vLLM takes `_` for `-` in flags, sets one key
of a JSON value by `--flag.key value`, and a unique prefix of a flag stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleet.flag_table import Domain, Flag, Flags

_FLAG = re.compile(r"--?[A-Za-z][^\s=]*(?:=.*)?", re.DOTALL)
_ONE_VALUE = (None, "?")
_SETTING = Flag(names=(), domain=Domain(type="str"), repeats=True, inline=False)


class Given(NamedTuple):
    """One value, and which word it is or ends."""

    text: str
    place: int

    @property
    def is_open(self) -> bool:
        """Say whether part of it is only known when the pod runs."""
        return "$" in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use of a flag."""

    index: int  # of its word
    spelled: str  # as it stands there, without value
    name: str  # in full
    flag: Flag | None  # None: the parser has no such flag
    key: tuple[str, ...] = ()  # the key that `--flag.key` sets
    values: tuple[Given, ...] = ()
    inline: bool = False  # `--flag=value`
    meant: tuple[str, ...] = ()  # more than one: what an abbreviation may stand for

    @property
    def place(self) -> int:
        """Return the number of the word with its value, or of the flag where it has none."""
        return self.values[0].place if self.values else self.index

    @property
    def abbreviated(self) -> bool:
        """Say whether a prefix stands for the flag."""
        return len(self.meant) == 1

    @property
    def negated(self) -> bool:
        """Say whether the spelling switches the flag off."""
        return self.flag is not None and self.name in self.flag.negative


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The flags that a program takes, and how they may be written."""

    own: Flags  # only in full
    passed: Flags  # what goes on to the engine; a prefix is enough
    vllm: bool  # its additions
    positional: int  # how many words may stand alone
    settings: str | None = None  # what starts so is the key of a setting, known or not


class Line(NamedTuple):
    """A command line, taken apart."""

    uses: tuple[Use, ...]
    left: tuple[Given, ...]  # words that belong to no flag
    hides_more: bool  # a variable stands alone, or for a flag: it may be any arguments


class _Found(NamedTuple):
    name: str
    flag: Flag | None
    key: tuple[str, ...] = ()
    meant: tuple[str, ...] = ()


def read_line(words: Sequence[str], grammar: Grammar) -> Line:
    """Take a command line apart."""
    uses: list[Use] = []
    left: list[Given] = []
    hidden = False  # a variable stood alone: what follows may be the value of a flag inside it
    hides_more = False
    alone = 0
    index = 0
    while index < len(words):
        word = words[index]
        if _FLAG.fullmatch(word) is None:
            hidden = hidden or "$" in word
            hides_more = hides_more or ("$" in word and alone >= grammar.positional)
            alone += 1
            if not hidden:
                left.append(Given(word, index))
            index += 1
            continue
        spelled, equals, text = _split(word, grammar)
        if "$" in spelled:
            hidden = hides_more = True
            index += 1
            continue
        found = _find(spelled, grammar)
        values = (Given(text, index),) if equals else _values(words, index, found)
        uses.append(
            Use(
                index=index,
                spelled=spelled,
                name=found.name,
                flag=found.flag,
                key=found.key,
                values=values,
                inline=bool(equals),
                meant=found.meant,
            )
        )
        hidden = False
        index += 1 if equals else 1 + len(values)
    return Line(tuple(uses), tuple(left[grammar.positional :]), hides_more)


def _split(word: str, grammar: Grammar) -> tuple[str, str, str]:
    if grammar.vllm and (level := re.fullmatch(r"-O=?(\w+)", word)):
        return "-O", "=", level[1]
    return word.partition("=")


def _values(words: Sequence[str], index: int, found: _Found) -> tuple[Given, ...]:
    """Take the words after a flag that are its values."""
    following: list[Given] = []
    for at in range(index + 1, len(words)):
        if _FLAG.fullmatch(words[at]):
            break
        following.append(Given(words[at], at))
    if found.flag is None or found.meant[1:]:
        return tuple(following)  # nobody knows how many it takes
    nargs = found.flag.nargs
    if found.key or nargs in _ONE_VALUE:
        return tuple(following[:1])
    return tuple(following[:nargs] if isinstance(nargs, int) else following)


def _find(spelled: str, grammar: Grammar) -> _Found:
    name = _long_form(spelled) if grammar.vllm else spelled
    if grammar.settings and spelled.startswith(grammar.settings):
        return _Found(spelled, _SETTING)
    if spelled in grammar.own:
        return _Found(spelled, grammar.own[spelled])
    if name in grammar.passed:
        return _Found(name, grammar.passed[name])
    if grammar.vllm and "." in name:
        base, *key = name.split(".")
        keys = tuple(part.rstrip("+").replace("-", "_") for part in key)
        base = "--compilation-config" if base == "-O" else base
        return _Found(base, grammar.passed.get(base), keys)
    if not name.startswith("--"):
        return _Found(name, None)
    return _abbreviated(name, grammar.passed or grammar.own)


def _abbreviated(name: str, flags: Flags) -> _Found:
    longer: Mapping[str, Flag] = {
        known: flag for known, flag in flags.items() if known.startswith(name)
    }
    different = {id(flag): known for known, flag in longer.items()}
    if len(different) == 1:
        full = next(iter(longer))
        return _Found(full, longer[full], meant=(full,))
    return _Found(name, None, meant=tuple(sorted(different.values())))


def _long_form(spelled: str) -> str:
    """Give vLLM's own spelling: `_` is `-` up to the first dot; `-O` is a level."""
    if spelled == "-O":
        return "--optimization-level"
    if not spelled.startswith("--"):
        return spelled
    head, dot, tail = spelled.partition(".")
    return head.replace("_", "-") + dot + tail
