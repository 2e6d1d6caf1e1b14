"""Read YAML with a line number for every value, and refuse what hides mistakes.

Refused: a key given twice (plain loaders silently keep the last, which has cost
public K3 recipes their CUDA graph sizes), anchors and aliases (a few lines can
expand to billions), tags, and more than one document. Plain words follow the
YAML 1.2 core schema: `off`, `no` and `1:30` are text, not False, False and 90.

The file is read as a stream of libyaml events: fast, and the depth is ours to
bound.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml

from fleet.errors import Problem

NodePath = tuple[str | int, ...]

SHOWN_CHARS = 60  # of a value or a key in a message
START = "Start with `apiVersion: k3fleet/v1`; see fleets/demo.yaml"
MAX_DEPTH = 32  # our own files nest 6 deep
MAX_FILE_BYTES = 1024 * 1024  # 200 racks take 20 kB

_CORE_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(
    r"[-+]?[0-9]{1,17}(?:\.[0-9]{1,17}(?:[eE][-+]?[0-9]{1,2})?|[eE][-+]?[0-9]{1,2})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML file: its data, the line of every path in it, and its faults.

    After a merge (`fleet/yaml_merge.py`) the lines of the paths in `origins` are
    those of the file named there. What comes from an option has no line.
    """

    file: str
    data: object
    lines: Mapping[NodePath, int | None]
    problems: tuple[Problem, ...]
    broken: frozenset[NodePath]
    origins: Mapping[NodePath, str] = field(default_factory=dict)

    @property
    def unreadable(self) -> bool:
        """Say whether the file itself could not be read, so that no line is at fault."""
        return () in self.broken and self.problems[0].line is None

    def line(self, path: NodePath) -> int | None:
        """Return the line of a path, or of its nearest parent that exists."""
        return self.lines.get(self._nearest(path))

    def file_at(self, path: NodePath) -> str:
        """Return the file in which a path, or its nearest parent that exists, stands."""
        return self.origins.get(self._nearest(path), self.file)

    def problem(self, path: NodePath, what: str, fix: str) -> Problem:
        """Describe a fault at a path of this file."""
        return Problem(
            file=self.file_at(path), line=self.line(path), path=path_text(path), what=what, fix=fix
        )

    def _nearest(self, path: NodePath) -> NodePath:
        return next(
            (path[:size] for size in range(len(path), 0, -1) if path[:size] in self.lines), ()
        )

    def is_broken(self, path: NodePath) -> bool:
        """Say whether the YAML itself is at fault at or above a path."""
        return any(path[:length] in self.broken for length in range(len(path) + 1))


def path_text(path: NodePath) -> str:
    """Write a path as `regions[0].racks[3].id`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_key_text(part)}"
    return text.removeprefix(".")


def _key_text(key: str) -> str:
    """Show a key as it is, unless it would disturb the terminal."""
    short = key if len(key) <= SHOWN_CHARS else key[: SHOWN_CHARS - 3] + "..."
    return short if short.isprintable() else repr(short)


def read_document(path: Path, *, start: str = START) -> Document:
    """Read and parse a file; whatever is wrong with it becomes a problem, never an exception.

    `start` says how such a file begins, to whoever gives an empty one.
    """
    content = file_content(path, MAX_FILE_BYTES, "Give a k3fleet YAML file")
    if isinstance(content, Problem):
        return _unusable(content)
    return parse_content(content, str(path), start=start)


def file_content(path: Path, max_bytes: int, fix: str) -> bytes | Problem:
    """Read a regular file that is not too large; `fix` says what to give instead of such a one."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would wait for ever
            return _problem(
                str(path), None, "cannot be read: it is not a regular file", "Give a file"
            )
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        return _problem(str(path), None, what, "Check the path and its permissions")
    except ValueError as error:  # a NUL in the path
        return _problem(repr(str(path)), None, f"cannot be read: {error}", "Check the path")
    if len(content) > max_bytes:
        what = f"the file is larger than {max_bytes // 1024**2} MiB"
        return _problem(str(path), None, what, fix)
    return content


def parse_content(content: bytes, file: str, *, start: str = START) -> Document:
    """Decode the bytes of a file and parse them."""
    text = plain_text(content, file)
    return _unusable(text) if isinstance(text, Problem) else parse_document(text, file, start=start)


def plain_text(content: bytes, file: str) -> str | Problem:
    """Decode the bytes of a text file."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{content[error.start]:02x} is not UTF-8"
        return _problem(file, line, what, "Save the file as UTF-8")
    return nul_problem(text, file) or text


def nul_problem(text: str, file: str) -> Problem | None:
    """Find the NUL at which libyaml would silently stop reading."""
    if "\0" not in text:
        return None
    line = text.count("\n", 0, text.index("\0")) + 1
    return _problem(file, line, "the file holds a NUL byte", "Save it as plain UTF-8 text")


def parse_document(text: str, file: str, *, start: str = START) -> Document:
    """Parse YAML text whose top must be a mapping."""
    if found := nul_problem(text, file):
        return _unusable(found)
    builder = _Builder(file, text)
    try:
        data = builder.document()
    except yaml.YAMLError as error:
        return _unusable(syntax_problem(file, text, error))
    except _TooDeepError as error:
        what = f"the YAML nests deeper than {MAX_DEPTH} levels"
        return _unusable(_problem(file, error.line, what, "A k3fleet file nests 6 deep at most"))
    if not isinstance(data, dict) and not builder.problems:
        what = "the file is empty" if data is None else "the top of the file is not a mapping"
        return _unusable(_problem(file, 1, what, start))
    return Document(
        file=file,
        data=data,
        lines=builder.lines,
        problems=tuple(builder.problems),
        broken=frozenset(builder.broken),
    )


def syntax_problem(file: str, text: str, error: yaml.YAMLError) -> Problem:
    """Say where a text is no YAML, as libyaml found it."""
    if isinstance(error, yaml.reader.ReaderError):
        # libyaml counts bytes here, not characters
        line = text.encode()[: error.position].count(b"\n") + 1
        what = f"invalid YAML: the character U+{error.character:04X} is not allowed"
        return _problem(file, line, what, "Remove that character")
    marked = cast(yaml.MarkedYAMLError, error)  # the only other kind that a parser raises
    mark = marked.problem_mark
    context = f" {marked.context}" if marked.context else ""
    what = f"invalid YAML: {marked.problem}{context}"
    fix = "Check indentation, quotes and colons on this line and the one above"
    if mark and text[mark.index : mark.index + 1] == "\t":
        fix = "Indent with spaces, not with a tab"
    return _problem(file, mark.line + 1 if mark else None, what, fix)


def _problem(file: str, line: int | None, what: str, fix: str) -> Problem:
    return Problem(file=file, line=line, path="", what=what, fix=fix)


def _unusable(problem: Problem) -> Document:
    return Document(
        file=problem.file, data=None, lines={}, problems=(problem,), broken=frozenset({()})
    )


class _TooDeepError(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Builder:
    """Build plain data from parser events, noting lines and faults on the way."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        self.lines: dict[NodePath, int] = {(): 1}
        self.problems: list[Problem] = []
        self.broken: set[NodePath] = set()

    def document(self) -> object:
        """Return the data of the one document in the stream."""
        data: object = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    line = _line(event)
                    self._report((), line, "a second YAML document starts here", "Keep one")
                    break
                data = self._node(next(self._events), ())
        return data

    def _node(self, event: yaml.Event, path: NodePath) -> object:
        line = _line(event)
        self.lines.setdefault(path, line)
        if len(path) > MAX_DEPTH:
            raise _TooDeepError(line)
        if isinstance(event, yaml.AliasEvent):
            self.broken.add(path)
            self._report(
                path,
                line,
                f"the alias *{_key_text(str(event.anchor))} is not allowed",
                "Write it out",
            )
            return None
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            fix = "Remove it, and write the value out where it is used"
            self._report(path, line, f"the anchor &{_key_text(event.anchor)} is not allowed", fix)
        tag = getattr(event, "tag", None)
        if tag is not None:
            self.broken.add(path)
            self._report(
                path, line, f"the tag {_key_text(tag)} is not allowed", "Write a plain value"
            )
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        scalar = cast(yaml.ScalarEvent, event)  # the only kind of node left
        return scalar.value if scalar.style else _resolve(scalar.value)

    def _sequence(self, path: NodePath) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items

    def _mapping(self, path: NodePath) -> dict[str, object]:
        data: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent):
                self._report(path, line, "a key is not plain text", "Write `key: value`")
                self._skip(event, path)
                self._skip(next(self._events), path)
                continue
            key_path = (*path, event.value)
            if event.value in data:
                first = self.lines[key_path]
                what = f"the key is given twice, on lines {first} and {line}"
                self._report(key_path, line, what, "Keep one of them")
                self._skip(next(self._events), key_path)
                continue
            self.lines[key_path] = line
            data[event.value] = self._node(next(self._events), key_path)
        return data

    def _skip(self, event: yaml.Event, path: NodePath) -> None:
        """Read past a node that is not used, still looking for faults inside it."""
        lines, self.lines = self.lines, {}
        self._node(event, path)
        self.lines = lines

    def _report(self, path: NodePath, line: int, what: str, fix: str) -> None:
        self.problems.append(
            Problem(file=self._file, line=line, path=path_text(path), what=what, fix=fix)
        )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _resolve(word: str) -> object:
    if word in _CORE_WORDS:
        return _CORE_WORDS[word]
    if _INT.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word
