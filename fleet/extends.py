"""Read a file that builds on others by `extends`, and lay it over them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from fleet.errors import Problem
from fleet.presets import NotFound
from fleet.schema import found_text
from fleet.yaml_document import Document, read_document
from fleet.yaml_merge import lay_over

EXTENDS = "extends"
MAX_BASES = 5  # ours stack 3; more is a maze for whoever must find a value at night

FindBase = Callable[[str, Path], Path | NotFound]
"""Give the file of a preset, or of a path relative to a folder."""


def read_extended(path: Path, *, known: Collection[str], find: FindBase) -> Document:
    """Read a file laid over all that it extends; faults become problems.

    `known` are the keys at the top of such a file, by which a mistyped `extends` is told.
    """
    document = read_document(path)
    if document.unreadable:
        return document
    return _Reader(known, find).resolved(document, path, (path.resolve(),))


@dataclass(frozen=True, slots=True)
class _Reader:
    known: Collection[str]
    find: FindBase

    def resolved(self, document: Document, path: Path, chain: tuple[Path, ...]) -> Document:
        data = document.data
        if not isinstance(data, dict):
            return document
        if EXTENDS not in data:
            return self._with_mistyped_extends(document, data)
        own = replace(document, data={key: data[key] for key in data if key != EXTENDS})
        base = None if document.is_broken((EXTENDS,)) else self._base(document, path, chain)
        if isinstance(base, Document):
            return lay_over(base, own)
        problems = own.problems if base is None else (*own.problems, base)
        # Without its base, most of the file would be reported as missing.
        return replace(own, problems=problems, broken=own.broken | {()})

    def _with_mistyped_extends(self, document: Document, data: dict[str, object]) -> Document:
        """Say what is meant by `exends`: everything else would be reported as missing."""
        unknown = [key for key in data if key not in self.known]
        for key in get_close_matches(EXTENDS, unknown, n=1):
            problem = document.problem((key,), "unknown key", f"Did you mean {EXTENDS!r}?")
            return replace(
                document, problems=(*document.problems, problem), broken=document.broken | {()}
            )
        return document

    def _base(self, document: Document, path: Path, chain: tuple[Path, ...]) -> Document | Problem:
        name = document.data[EXTENDS] if isinstance(document.data, dict) else None
        if not isinstance(name, str) or not name:
            what = f"expected a preset or a path, found {found_text(name)}"
            return document.problem((EXTENDS,), what, "Name a preset, or a file that ends in .yaml")
        found = self.find(name, path.parent)
        if isinstance(found, NotFound):
            return document.problem((EXTENDS,), found.what, found.fix)
        base = read_document(found)
        if base.unreadable:
            what = f"{base.file} {base.problems[0].what}"
            return document.problem((EXTENDS,), what, "Check the path")
        own = found.resolve()
        way = " -> ".join(file.name for file in (*chain, own))
        if own in chain:
            return document.problem((EXTENDS,), f"leads back to itself: {way}", "Cut the circle")
        if len(chain) > MAX_BASES:
            what = f"more than {MAX_BASES} files lie under each other: {way}"
            return document.problem((EXTENDS,), what, "Write the values of some of them out")
        return self.resolved(base, found, (*chain, own))
