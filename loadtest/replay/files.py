"""Read the JSON objects of recorded files: line by line, bounded, with their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any, BinaryIO, NoReturn, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from fleet.errors import ConfigError, Problem

MAX_LINE_BYTES = 256 * 1024 * 1024  # the largest public recording has 6 MB
MAX_FILES = 10_000
_BREATH_BYTES = 1024 * 1024
BREATH_ITEMS = 4096
"""How much is done between two breaths."""
_BOM = b"\xef\xbb\xbf"
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")

Document = dict[str, Any]


class Recorded(BaseModel):
    """Base of the recorded objects: other tools add keys, so unknown ones are let through."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, populate_by_name=True)


_ModelT = TypeVar("_ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one JSON object and where it stands."""

    file: Path
    line: int | None
    """None for a file that is one document."""
    data: Document

    def place(self) -> Entry:
        """Keep the place alone, for messages: what was read need not stay in memory."""
        return Entry(self.file, self.line, {})

    def refuse(self, path: str, what: str, fix: str) -> NoReturn:
        """Raise ConfigError that points into this object."""
        raise refusal(self.file, self.line, path, what, fix)

    def read(self, model: type[_ModelT], data: Any, path: str = "") -> _ModelT:
        """Validate a part of the object; raises ConfigError that names the first wrong field."""
        try:
            return model.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in (path, *first["loc"]) if part != "")
            self.refuse(place, first["msg"], "Correct this field, or leave the object out")


def breathe() -> None:
    """Pause for no time: under gevent others may run then.

    A worker that reads for a minute still answers its master meanwhile.
    """
    sleep(0)


def refusal(file: Path, line: int | None, path: str, what: str, fix: str) -> ConfigError:
    """Make the error that names a place in a file."""
    return ConfigError.of([Problem(file=str(file), line=line, path=path, what=what, fix=fix)])


def list_files(path: Path) -> list[Path]:
    """Give the file, or those of a folder by name; raises ConfigError when there is none."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(file for file in path.iterdir() if file.suffix in {".json", ".jsonl"})
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not found:
        fix = "Give a file, or a folder of .json and .jsonl files"
        raise refusal(path, None, "", "the folder holds no .json or .jsonl file", fix)
    return found[:MAX_FILES]


def read_entries(files: Sequence[Path], *, may_be_cut: bool) -> Iterator[Entry]:
    """Give the objects of all files one after the other, never more than one line in memory.

    A file whose first line is no JSON of its own is read as one document. With `may_be_cut` a
    last line without its end is left out: whoever wrote it was killed.
    """
    for file in files:
        try:
            with _open(file) as stream:
                yield from _entries(file, stream, may_be_cut)
        except OSError as error:
            raise _unreadable(file, error) from error


def first_entry(file: Path) -> Entry | None:
    """Give the first object of a file, None when it holds none."""
    return next(read_entries([file], may_be_cut=False), None)


def _unreadable(path: Path, error: OSError | ValueError) -> ConfigError:
    why = getattr(error, "strerror", None) or str(error)
    return refusal(path, None, "", f"cannot be read: {why}", "Give a file that can be read")


def _open(file: Path) -> BinaryIO:
    try:
        if file.exists() and not file.is_file():
            raise refusal(file, None, "", "is not a regular file", "Give a file or a folder")
        stream = file.open("rb")
    except ValueError as error:  # a NUL in the name
        raise _unreadable(file, error) from error
    start = stream.read(8)
    for magic, name in _COMPRESSED.items():
        if start.startswith(magic):
            stream.close()
            raise refusal(file, None, "", f"is compressed ({name})", "Unpack it first")
    if start.startswith(_UTF16):
        stream.close()
        raise refusal(file, None, "", "is UTF-16", "Save it as UTF-8")
    stream.seek(len(_BOM) if start.startswith(_BOM) else 0)
    return stream


def _entries(file: Path, stream: BinaryIO, may_be_cut: bool) -> Iterator[Entry]:
    number = seen = unbroken = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        unbroken += len(line)
        if unbroken >= _BREATH_BYTES:
            unbroken = 0
            breathe()
        if len(line) > MAX_LINE_BYTES:
            what = f"the line is longer than {MAX_LINE_BYTES >> 20} MiB"
            raise refusal(file, number, "", what, "Write one session or call per line")
        if not line.strip():
            continue
        seen += 1
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if seen == 1:
                yield from _document(file, line, stream, may_be_cut)
                return
            if may_be_cut and not line.endswith(b"\n"):
                return
            raise _bad_json(file, number, error) from error
        if not isinstance(data, dict):
            what = "is no JSON object"
            raise refusal(file, number, "", what, "Write one JSON object per line, or one in all")
        yield Entry(file, number, data)


def _document(file: Path, start: bytes, stream: BinaryIO, may_be_cut: bool) -> Iterator[Entry]:
    """Read a document that goes over many lines, as whoever indents JSON writes it."""
    rest = stream.read(MAX_LINE_BYTES + 1 - len(start))
    if len(start) + len(rest) > MAX_LINE_BYTES:
        what = f"the file is one JSON document larger than {MAX_LINE_BYTES >> 20} MiB"
        raise refusal(file, None, "", what, "Write one object per line (JSONL)")
    try:
        data = orjson.loads(start + rest)
    except orjson.JSONDecodeError as error:
        if may_be_cut and not rest and not start.endswith(b"\n"):
            return
        raise _bad_json(file, None, error) from error
    if not isinstance(data, dict):
        what = "the top of the file is no JSON object"
        raise refusal(file, None, "", what, "Write one JSON object per line, or one in all")
    yield Entry(file, None, data)


def _bad_json(file: Path, line: int | None, error: orjson.JSONDecodeError) -> ConfigError:
    fix = "Correct it, or record the file again"
    where = line if line is not None else error.lineno
    return refusal(file, where, "", f"invalid JSON: {error}", fix)
