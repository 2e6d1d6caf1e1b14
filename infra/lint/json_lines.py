"""Read JSON with the line of every path.

JSON is nearly YAML, but not quite: pairs of surrogates, long keys and control characters
are fine in it and no YAML.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field

from fleet.yaml_document import NodePath

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rf"\s*({_STRING}|[{{}}\[\],:]|[^\s{{}}\[\],:\"]+)", re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class TooDeepError(Exception):
    """The text nests deeper than it may."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@dataclass(slots=True)
class JsonText:
    """One JSON text: its data, where each path stands, and the keys that were given before."""

    data: object = None
    lines: dict[NodePath, int] = field(default_factory=dict)
    duplicates: list[tuple[NodePath, int]] = field(default_factory=list)


def parse_json(text: str, max_depth: int) -> JsonText | None:
    """Read a mapping or a list; None: the text is no JSON.

    Raises TooDeepError.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(text, parse_constant=_no_number)
    except ValueError:
        return None
    except RecursionError:  # the walk below says where
        pass
    return _Walk(text, max_depth).whole()


def _no_number(name: str) -> object:
    raise ValueError(name)


class _Walk:
    """Walk over a text that is known to be JSON."""

    def __init__(self, text: str, max_depth: int) -> None:
        self._tokens = _TOKEN.finditer(text)
        self._newlines = [found.start() for found in re.finditer("\n", text)]
        self._max_depth = max_depth
        self._found = JsonText()

    def whole(self) -> JsonText:
        token, line = self._take()
        self._found.lines[()] = line
        self._found.data = self._value(token, line, ())
        return self._found

    def _take(self) -> tuple[str, int]:
        found = next(self._tokens)
        return found[1], bisect_right(self._newlines, found.start(1)) + 1

    def _value(self, token: str, line: int, path: NodePath) -> object:
        if token not in ("{", "["):
            return _scalar(token)
        if len(path) > self._max_depth:
            raise TooDeepError(line)
        return self._mapping(path) if token == "{" else self._sequence(path)  # noqa: S105

    def _mapping(self, path: NodePath) -> dict[str, object]:
        data: dict[str, object] = {}
        while (taken := self._take())[0] != "}":
            if taken[0] == ",":
                continue
            key, line = str(_scalar(taken[0])), taken[1]
            key_path = (*path, key)
            if key in data:
                self._found.duplicates.append((key_path, line))
            self._found.lines[key_path] = line
            self._take()  # the colon
            data[key] = self._value(*self._take(), key_path)
        return data

    def _sequence(self, path: NodePath) -> list[object]:
        items: list[object] = []
        while (taken := self._take())[0] != "]":
            if taken[0] == ",":
                continue
            item_path = (*path, len(items))
            self._found.lines[item_path] = taken[1]
            items.append(self._value(*taken, item_path))
        return items


def _scalar(token: str) -> object:
    """Read text, a number or a word; half a pair stands for nothing, as for Go."""
    value: object = json.loads(token)
    return (
        _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value
    )
