"""Read a list of engine arguments as flags with their values.

`--flag=value`, `--flag value` and `--flag` alone are all in use, and the two
spellings `--max_num_seqs` and `--max-num-seqs` are one flag to every engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_FLAG = re.compile(r"--?[A-Za-z]")  # `-1` is a value


class FlagWords(NamedTuple):
    """One flag, and which words of the list belong to it."""

    flag: str  # empty for words before the first flag
    words: range


def flag_words(args: Sequence[object]) -> list[FlagWords]:
    """Split arguments at their flags. What is no text counts as a value."""
    starts = [index for index, word in enumerate(args) if _is_flag(word)]
    edges = sorted({0, *starts, len(args)})
    return [
        FlagWords(flag_name(args[start]) if start in starts else "", range(start, end))
        for start, end in pairwise(edges)
    ]


def flag_name(word: object) -> str:
    """Give a flag without its value, in its one spelling."""
    return str(word).partition("=")[0].replace("_", "-")


def merged_order(base: Sequence[object], top: Sequence[object]) -> list[tuple[bool, int]]:
    """Say which words stand in the merged list: (from top?, index there).

    A flag of `top` takes the place of the same flag of `base`, all its values with
    it; other words of `top` follow at the end.
    """
    mine = [part for part in flag_words(top) if part.flag]
    replaced = {part.flag for part in mine}.intersection(part.flag for part in flag_words(base))
    order: list[tuple[bool, int]] = []
    done: set[str] = set()
    for part in flag_words(base):
        if part.flag not in replaced:
            order += [(False, index) for index in part.words]
        elif part.flag not in done:
            done.add(part.flag)
            order += [(True, index) for own in mine if own.flag == part.flag for index in own.words]
    for part in flag_words(top):
        if part.flag not in replaced:
            order += [(True, index) for index in part.words]
    return order


def _is_flag(word: object) -> bool:
    return isinstance(word, str) and _FLAG.match(word) is not None
