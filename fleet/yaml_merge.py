"""Lay one YAML document over another and keep where every value stands.

A wrong value that a file inherits stands in the file it inherits from; a message
that pointed anywhere else would send its reader to a line that is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fleet.engine_args import merged_order
from fleet.yaml_document import Document, NodePath

ARGS = "args"  # the one list that is merged word by word


def lay_over(base: Document, top: Document) -> Document:
    """Merge two documents: mappings by key, `args` by flag; other values of `top` replace.

    A null takes away what stands there in `base`, as if it had never said it.
    """
    problems = (*base.problems, *top.problems)
    if base.is_broken(()) or top.is_broken(()):
        return replace(top, problems=problems, broken=top.broken | {()})
    merge = _Merge(base, top)
    data = merge.values(base.data, top.data, ())
    return Document(
        file=top.file,
        data=data,
        lines=merge.lines,
        problems=problems,
        broken=frozenset(merge.broken),
        origins=merge.origins,
    )


@dataclass(slots=True)
class _Merge:
    """Data of two documents becoming one, and the places of its values."""

    base: Document
    top: Document
    lines: dict[NodePath, int | None] = field(default_factory=dict)
    origins: dict[NodePath, str] = field(default_factory=dict)
    broken: set[NodePath] = field(default_factory=set)

    def values(self, base: object, top: object, path: NodePath) -> object:
        """Merge two values that stand at the same path."""
        if isinstance(base, dict) and isinstance(top, dict):
            self._place(self.base, path, path)  # an option has no place of its own for it
            self._place(self.top, path, path)
            gone = {key for key, value in top.items() if value is None and key in base}
            keys = [key for key in {**base, **top} if key not in gone]
            return {key: self._entry(base, top, (*path, key)) for key in keys}
        if path[-1:] == (ARGS,) and isinstance(base, list) and isinstance(top, list):
            self._place(self.top, path, path)
            return self._args(base, top, path)
        return self._take(self.top, top, path, path)

    def _entry(self, base: dict[str, object], top: dict[str, object], path: NodePath) -> object:
        key = str(path[-1])
        if key not in top:
            return self._take(self.base, base[key], path, path)
        if key not in base:
            return self._take(self.top, top[key], path, path)
        return self.values(base[key], top[key], path)

    def _args(self, base: list[object], top: list[object], path: NodePath) -> list[object]:
        words: list[object] = []
        for from_top, index in merged_order(base, top):
            document, source = (self.top, top) if from_top else (self.base, base)
            target = (*path, len(words))
            words.append(self._take(document, source[index], (*path, index), target))
        return words

    def _take(self, document: Document, value: object, source: NodePath, to: NodePath) -> object:
        """Note the places of a value that only one document decides, and return it."""
        self._place(document, source, to)
        parts: list[tuple[str | int, object]] = []
        if isinstance(value, dict):
            parts = list(value.items())
        elif isinstance(value, list):
            parts = list(enumerate(value))
        for key, part in parts:
            self._take(document, part, (*source, key), (*to, key))
        return value

    def _place(self, document: Document, source: NodePath, to: NodePath) -> None:
        if source in document.lines:
            self.lines[to] = document.lines[source]
            self.origins[to] = document.file_at(source)
        if source in document.broken:
            self.broken.add(to)
