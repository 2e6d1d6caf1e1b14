"""Look flags up in a command line, by any of their names.

The one reader for rules: it knows what the parser of the version knows, so that a short
name, a prefix, `_` for `-` or `--flag.key` lead to the same flag. Where no table is,
a flag is what looks like one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fleet.flag_target import choose, line_of
from fleet.flag_words import Grammar, Line, Use, read_line
from fleet.units import whole_number

_WITHOUT_TABLE = Grammar(own={}, passed={}, vllm=False, positional=0)
_CACHED = 4096


@dataclass(frozen=True, slots=True)
class GivenFlags:
    """What a command line sets. Defaults are the reader's."""

    uses: Sequence[Use]
    env: Sequence[tuple[str, str | None]] = ()
    hides_more: bool = False  # a variable may stand for any arguments

    def find(self, *names: str) -> Use | None:
        """Return the last use of any of some flags; not one that switches it off, or sets a key."""
        found = (use for use in reversed(self.uses) if not use.key and is_any(use, names))
        return next(found, None)

    def has(self, *names: str) -> bool:
        """Say whether one of some flags is given."""
        return any(is_any(use, names) for use in self.uses)

    def text(self, *names: str) -> str | None:
        """Return the last value of any of some flags; None: not given, or not known yet."""
        use = self.find(*names)
        value = use.values[0] if use and use.values else None
        return None if value is None or value.is_open else value.text

    def number(self, *names: str, default: int) -> int | None:
        """Return a number, the default when the flag is missing, None when nobody can know."""
        return whole_number(self.text(*names)) if self.has(*names) else default

    def keys(self, name: str) -> dict[str, Any]:
        """Return the keys of a JSON value, those set one by one too."""
        found: dict[str, Any] = {}
        for use in self.uses:
            if not is_any(use, (name,)) or not use.values:
                continue
            if len(use.key) == 1:
                found[use.key[0]] = use.values[0].text
            elif not use.key and not use.values[0].is_open:
                found |= json_keys(use.values[0].text) or {}
        return found


def is_any(use: Use, names: Sequence[str]) -> bool:
    """Say whether a use is one of some flags, by whatever name."""
    if use.name in names:
        return True
    return use.flag is not None and not use.negated and not set(names).isdisjoint(use.flag.names)


def json_keys(text: str) -> dict[str, Any] | None:
    """Read a JSON object; None: it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@lru_cache(maxsize=_CACHED)
def given_flags(
    program: str, words: tuple[str, ...], engine: str | None, dynamo: str | None
) -> GivenFlags:
    """Read the flags of a program in its version; of an unknown one, by the newest tables."""
    line = _line(program, words, engine, dynamo)
    return GivenFlags(line.uses, hides_more=line.hides_more)


def _line(program: str, words: tuple[str, ...], engine: str | None, dynamo: str | None) -> Line:
    target = choose(program, engine, dynamo)
    if target is None or not target.candidates:
        return read_line(words, _WITHOUT_TABLE)
    return line_of(target.candidates[0], words)
