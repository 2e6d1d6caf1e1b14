"""Read a stream of YAML documents as kubectl does, with the line of every path.

Other than our own files (`fleet/yaml_document.py`) manifests may hold anchors, merge
keys and YAML 1.1 words, and a key given twice is a finding and no refusal. An alias
shares the data of its anchor, so a bomb costs nothing here; it is refused because
whoever walks the data would pay for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import yaml

from fleet.errors import Problem
from fleet.yaml_document import NodePath, nul_problem, path_text, syntax_problem
from infra.lint.json_lines import TooDeepError, parse_json

MAX_DEPTH = 100  # the deepest object of a public chart, a CustomResourceDefinition, nests 40
MAX_ALIASED_NODES = 100_000  # what aliases add to a document
CHARS_OF_NODE = 128  # of a long text, each so many count as one more value

_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{form: True for word in ("true", "yes", "on") for form in (word, word.title(), word.upper())},
    **{
        form: False
        for word in ("false", "no", "off")
        for form in (word, word.title(), word.upper())
    },
}
_NUMBER_STARTS = frozenset("+-.0123456789")
_INT = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|0[oO]?[0-7]{1,22}|0|[1-9][0-9]{0,18})"
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_STANDARD = "tag:yaml.org,2002:"
_MERGE = "<<"
# A line or a value that starts with a template's braces: YAML would read a mapping as a key.
_TEMPLATE = re.compile(r"\s*(?:- )*(?:[\w./-]+:\s*)?\{\{")
# What only Helm fills in. In quotes and blocks it is text, for Alertmanager as for a chat template.
_HELM = re.compile(r"\{\{-?\s*(?:\.Values|\.Release|\.Chart|\.Capabilities|include\s|template\s)")


class StreamDocument(NamedTuple):
    """One document of a stream; `data` is anything that YAML can hold."""

    data: object
    line: int  # where it starts
    lines: dict[NodePath, int]
    duplicates: list[tuple[NodePath, int]]


_TOO_DEEP = f"the YAML nests deeper than {MAX_DEPTH} levels"
_LESS_DEEP = "No object of Kubernetes does; give a manifest"


class _Anchor(NamedTuple):
    value: object
    nodes: int
    depth: int  # of what is below it


class _RefusedError(Exception):
    def __init__(self, line: int, what: str, fix: str) -> None:
        super().__init__(what)
        self.line, self.what, self.fix = line, what, fix


def parse_stream(text: str, file: str) -> list[StreamDocument] | Problem:
    """Parse all documents of a text, YAML or JSON, or say why that cannot be done."""
    if found := nul_problem(text, file):
        return found
    try:
        if whole := parse_json(text, MAX_DEPTH):
            line = whole.lines[()]
            return [StreamDocument(whole.data, line, whole.lines, whole.duplicates)]
        return list(_Parser(text).documents())
    except TooDeepError as error:
        return Problem(file=file, line=error.line, path="", what=_TOO_DEEP, fix=_LESS_DEEP)
    except yaml.YAMLError as error:
        return _template_problem(text, file) or syntax_problem(file, text, error)
    except _RefusedError as error:
        problem = Problem(file=file, line=error.line, path="", what=error.what, fix=error.fix)
        return _template_problem(text, file) or problem


def _template_problem(text: str, file: str) -> Problem | None:
    """Find what makes a text that is no YAML a Helm template."""
    for number, line in enumerate(text.splitlines(), start=1):
        is_template = _TEMPLATE.match(line) or _HELM.search(line)
        if is_template and not line.lstrip().startswith("#"):
            what = "this looks like a Helm template"
            fix = "Render it first with `helm template`, and give what that prints"
            return Problem(file=file, line=number, path="", what=what, fix=fix)
    return None


class _Parser:
    """Build plain data from parser events."""

    def __init__(self, text: str) -> None:
        # Events are Any: the stubs allow None where libyaml never gives it.
        self._next: Callable[[], Any] = yaml.CSafeLoader(text).get_event
        self._may_be_helm = _HELM.search(text) is not None
        self._begin()

    def _begin(self) -> None:
        self._lines: dict[NodePath, int] = {}
        self._duplicates: list[tuple[NodePath, int]] = []
        self._anchors: dict[str, _Anchor] = {}
        self._nodes = 0
        self._aliased = 0
        self._deepest = 0

    def documents(self) -> Iterator[StreamDocument]:
        """Yield the documents in their order."""
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                self._begin()
                root = self._next()
                line = _line(root)
                self._lines[()] = line
                data = self._node(root, ())
                yield StreamDocument(data, line, self._lines, self._duplicates)

    def _node(self, event: yaml.Event, path: NodePath) -> object:
        self._nodes += 1
        kind = type(event)
        if kind is yaml.AliasEvent:
            return self._alias(event, path)
        node = cast("yaml.NodeEvent", event)
        if node.anchor is None:
            return self._value(node, path)
        before, deepest, self._deepest = self._nodes, self._deepest, len(path)
        value = self._value(node, path)
        depth = self._deepest - len(path)
        self._anchors[node.anchor] = _Anchor(value, self._nodes - before, depth)
        self._deepest = max(deepest, self._deepest)
        return value

    def _value(self, event: yaml.NodeEvent, path: NodePath) -> object:
        if type(event) is yaml.ScalarEvent:
            return self._scalar(event)
        self._deepest = max(self._deepest, len(path))
        if len(path) > MAX_DEPTH:
            raise _too_deep(event)
        tag = getattr(event, "tag", None)
        if tag not in (None, "!", f"{_STANDARD}map", f"{_STANDARD}seq"):
            raise _unknown_tag(event, str(tag))
        if type(event) is yaml.MappingStartEvent:
            return self._mapping(path)
        return self._sequence(path)

    def _sequence(self, path: NodePath) -> list[object]:
        items: list[object] = []
        take, lines = self._next, self._lines
        while type(event := take()) is not yaml.SequenceEndEvent:
            item_path = (*path, len(items))
            lines[item_path] = event.start_mark.line + 1
            items.append(self._node(event, item_path))
        return items

    def _mapping(self, path: NodePath) -> dict[str, object]:
        data: dict[str, object] = {}
        merged: list[tuple[Mapping[str, object], int]] = []
        take, lines = self._next, self._lines
        while type(event := take()) is not yaml.MappingEndEvent:
            if type(event) is not yaml.ScalarEvent:
                what = "a key is not plain text"
                raise _RefusedError(_line(event), what, "Write `key: value`")
            key, line = event.value, _line(event)
            key_path = (*path, key)
            if key == _MERGE and not event.style:
                merged += [(item, line) for item in self._bases(take(), key_path)]
                continue
            if key in data:
                self._duplicates.append((key_path, line))
            lines[key_path] = line
            data[key] = self._node(take(), key_path)
        for base, line in merged:
            for key in base.keys() - data.keys():
                lines[(*path, key)] = line
            data = {**base, **data}
        return data

    def _bases(self, event: yaml.Event, path: NodePath) -> list[Mapping[str, object]]:
        """Return what a merge key brings in, the strongest first."""
        value = self._node(event, path)
        bases: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in bases):
            what = f"{path_text(path)} merges something that is no mapping"
            raise _RefusedError(_line(event), what, "Give `<<` the alias of a mapping")
        return bases

    def _alias(self, event: Any, path: NodePath) -> object:
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            what = f"the alias *{path_text((event.anchor,))} stands before the end of its anchor"
            raise _RefusedError(_line(event), what, "Write the value out")
        self._nodes += anchor.nodes
        self._aliased += anchor.nodes
        self._deepest = max(self._deepest, len(path) + anchor.depth)
        if self._deepest > MAX_DEPTH:
            raise _too_deep(event)
        if self._aliased > MAX_ALIASED_NODES:
            what = f"aliases expand to more than {MAX_ALIASED_NODES:,} values"
            raise _RefusedError(_line(event), what, "Write the values out")
        return anchor.value

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        value: str = event.value
        self._nodes += len(value) // CHARS_OF_NODE
        if self._may_be_helm and not event.style and _HELM.search(value):
            raise _RefusedError(_line(event), "a Helm template", "Render it")  # said better above
        if event.tag is not None:
            return _tagged(event)
        return value if event.style else resolve(value)


def resolve(word: str) -> object:
    """Say what a plain word means to kubectl (go-yaml): YAML 1.1, but times are text."""
    if word in _WORDS:
        return _WORDS[word]
    if word[0] not in _NUMBER_STARTS:
        return word
    number = word.replace("_", "")
    if _INT.fullmatch(number):
        return _integer(number)
    if _FLOAT.fullmatch(number):
        value = float(number)
        return value if math.isfinite(value) else word
    if _INFINITE.fullmatch(word):
        return float(word.replace(".", ""))
    return word


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _tagged(event: Any) -> object:
    kind = event.tag.removeprefix(_STANDARD)
    if kind in ("!", "str", "timestamp"):
        return event.value
    if kind in ("bool", "int", "float", "null"):
        return resolve(event.value)
    raise _unknown_tag(event, event.tag)


def _unknown_tag(event: yaml.Event, tag: str) -> _RefusedError:
    what = f"kubectl knows no tag {path_text((tag,))}"
    return _RefusedError(_line(event), what, "Write a plain value")


def _too_deep(event: yaml.Event) -> _RefusedError:
    return _RefusedError(_line(event), _TOO_DEEP, _LESS_DEEP)


def _line(event: Any) -> int:
    line: int = event.start_mark.line
    return line + 1
