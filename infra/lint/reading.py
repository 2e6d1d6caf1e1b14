"""Read manifests from files and folders; say of everything unusable why it is."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fleet.errors import ConfigError, Problem
from fleet.yaml_document import NodePath, file_content, plain_text
from infra.lint.manifest import Manifest
from infra.lint.yaml_stream import StreamDocument, parse_stream

ENDINGS = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 16 * 1024**2
MAX_TOTAL_BYTES = 64 * 1024**2  # 200 racks take 25 MB
MAX_FILES = 8_000
MAX_ENTRIES = 100_000  # looked at in folders: someone gave `/`
MAX_LIST_DEPTH = 3  # a List of Lists of Lists

FLEET_API = "k3fleet/v1"


class Reading(NamedTuple):
    """What some files and folders hold."""

    manifests: tuple[Manifest, ...]
    notices: tuple[Problem, ...]  # what was left out of a folder: to be told, and no fault


class _File(NamedTuple):
    path: Path
    is_named: bool  # by the user, and not found in a folder


def read_manifests(paths: Sequence[Path]) -> Reading:
    """Read all objects of some files and folders, in order.

    Raises ConfigError with every file that cannot be used. What a folder holds beside
    manifests (values of a chart, settings of a CI, a dead link) is left out with a notice.
    """
    files, notices, problems = _files(paths)
    manifests: list[Manifest] = []
    total_bytes = read = 0
    for file in files:
        name = str(file.path)
        content = file_content(file.path, MAX_FILE_BYTES, "Give manifests, or split the file")
        if isinstance(content, Problem):
            problems.append(content)
            continue
        total_bytes += len(content)
        if total_bytes > MAX_TOTAL_BYTES:
            what = f"with this file there are more than {MAX_TOTAL_BYTES // 1024**2} MiB to read"
            problems.append(_problem(name, None, what, "Give fewer files at a time"))
            break
        stream = _stream(content, name)
        if not file.is_named and not isinstance(stream, Problem) and all(map(_is_other, stream)):
            notices.append(_skipped(file.path, "no manifest"))
            continue
        read += 1
        found, faults = _objects(stream, name)
        manifests += found
        problems += faults
    if notices and not read and not problems:
        what = f"none of its files is a manifest ({len(notices)} skipped)"
        problems.append(_problem(str(paths[0]), None, what, "Give a folder with manifests"))
    if problems:
        raise ConfigError.of(problems)
    return Reading(tuple(manifests), tuple(notices))


def parse_manifests(content: bytes, file: str) -> tuple[list[Manifest], list[Problem]]:
    """Parse the objects of one file."""
    return _objects(_stream(content, file), file)


def _stream(content: bytes, file: str) -> list[StreamDocument] | Problem:
    text = plain_text(content, file)
    return text if isinstance(text, Problem) else parse_stream(text, file)


def _objects(
    stream: list[StreamDocument] | Problem, file: str
) -> tuple[list[Manifest], list[Problem]]:
    if isinstance(stream, Problem):
        return [], [stream]
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    for document in stream:
        if document.data is not None:
            _unfold(document, file, manifests, problems)
    if all(document.data is None for document in stream):
        problems.append(_problem(file, 1, "the file is empty", "Give a manifest, or remove it"))
    return manifests, problems


def _is_other(document: StreamDocument) -> bool:
    """Say whether a document was never meant to be an object of Kubernetes."""
    data = document.data
    if not isinstance(data, Mapping) or data.get("apiVersion") == FLEET_API:
        return True
    return "kind" not in data and not {"apiVersion", "metadata"} <= data.keys()


def _unfold(
    document: StreamDocument,
    file: str,
    manifests: list[Manifest],
    problems: list[Problem],
    depth: int = 0,
) -> None:
    """Add the object of a document, or those of its list."""
    data = document.data
    if found := _no_object(data, file, document.line):
        problems.append(found)
        return
    assert isinstance(data, dict)  # noqa: S101 - for mypy: _no_object has looked
    items = _listed(data)
    if items is None:
        duplicates = tuple(document.duplicates)
        manifests.append(
            Manifest(file=file, data=data, lines=document.lines, duplicates=duplicates)
        )
        return
    if not isinstance(items, list):
        line, fix = document.lines.get(("items",), document.line), "Start each item with `- `"
        problems.append(_problem(file, line, "the items of this List are no list", fix))
        return
    if depth == MAX_LIST_DEPTH:
        what = f"lists are inside lists, more than {MAX_LIST_DEPTH} deep"
        problems.append(_problem(file, document.line, what, "Write the objects out"))
        return
    for item in _items(document, items):
        _unfold(item, file, manifests, problems, depth + 1)


def _listed(data: dict[str, object]) -> object:
    """Return what stands where a list has its items; None: this is an object by itself."""
    items = data.get("items")
    if (data["apiVersion"], data["kind"]) == ("v1", "List"):
        return [] if items is None else items
    return items if str(data["kind"]).endswith("List") and isinstance(items, list) else None


def _items(document: StreamDocument, items: list[object]) -> Iterator[StreamDocument]:
    """Split a list into its items, each with its own lines."""
    lines: list[dict[NodePath, int]] = [{} for _ in items]
    duplicates: list[list[tuple[NodePath, int]]] = [[] for _ in items]
    for path, line in document.lines.items():
        if (index := _item_of(path, len(items))) is not None:
            lines[index][path[2:]] = line
    for path, line in document.duplicates:
        if (index := _item_of(path, len(items))) is not None:
            duplicates[index].append((path[2:], line))
    for index, item in enumerate(items):
        line = lines[index].get((), document.line)
        yield StreamDocument(_typed(item, document.data), line, lines[index], duplicates[index])


def _item_of(path: NodePath, size: int) -> int | None:
    if len(path) > 1 and path[0] == "items" and isinstance(path[1], int) and path[1] < size:
        return path[1]
    return None


def _typed(item: object, whole: object) -> object:
    """Give an item of a typed list its type: the API server leaves it out of a PodList."""
    if not isinstance(item, dict) or not isinstance(whole, dict) or whole["kind"] == "List":
        return item
    types = {"apiVersion": whole["apiVersion"], "kind": whole["kind"].removesuffix("List")}
    return {**types, **item}


def _no_object(data: object, file: str, line: int) -> Problem | None:
    """Say why a document is no object of Kubernetes."""
    if not isinstance(data, Mapping):
        what = "this document is no mapping"
        return _problem(file, line, what, "Give objects with apiVersion and kind")
    if data.get("apiVersion") == FLEET_API:
        what = "this is a fleet file of k3fleet and no manifest"
        return _problem(file, line, what, "Give a fleet file alone: `k3fleet lint FLEET_FILE`")
    missing = [key for key in ("apiVersion", "kind") if not _is_text(data.get(key))]
    if not missing:
        return None
    what = f"this document has no {' and no '.join(missing)}, so it is no object of Kubernetes"
    return _problem(file, line, what, "Add what is missing, or leave the file out")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _files(paths: Sequence[Path]) -> tuple[list[_File], list[Problem], list[Problem]]:
    """List the files to read, each once; what to say of others; and what cannot be read."""
    files: dict[Path, _File] = {}
    notices: list[Problem] = []
    problems: list[Problem] = []
    for path in paths:
        if not _is_folder(path):
            files[path.absolute()] = _File(path, is_named=True)
            continue
        for item in _in_folder(path, notices):
            if isinstance(item, Problem):
                problems.append(item)
            else:
                files.setdefault(item.absolute(), _File(item, is_named=False))
    if len(files) > MAX_FILES:
        what = f"there are more than {MAX_FILES:,} files"
        fix = "Give a smaller folder, or fewer files"
        return [], [], [_problem(str(paths[0]), None, what, fix)]
    return list(files.values()), notices, problems


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # reading it says why
        return False


def _in_folder(folder: Path, notices: list[Problem]) -> Iterator[Path | Problem]:
    """Find the manifests of a folder, sorted; hidden files and folders are left out."""
    errors: list[OSError] = []
    entries = found = 0
    for place, folders, names in os.walk(folder, onerror=errors.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        entries += len(folders) + len(names)
        if entries > MAX_ENTRIES:
            what = f"the folder holds more than {MAX_ENTRIES:,} files"
            yield _problem(str(folder), None, what, "Give a smaller folder")
            return
        for name in sorted(names):
            if name.endswith(ENDINGS) and not name.startswith("."):
                found += 1
                path = Path(place, name)
                if why := _left_out(path, folder):
                    notices.append(_skipped(path, why))
                else:
                    yield path
    for error in errors:
        what = f"cannot be read: {error.strerror}"
        yield _problem(str(error.filename), None, what, "Check its permissions")
    if not found and not errors:
        what = f"the folder holds no manifest ({', '.join(ENDINGS)})"
        yield _problem(str(folder), None, what, "Give a folder with manifests")


def _left_out(path: Path, folder: Path) -> str | None:
    """Say why an entry of a folder is not read, if so: what a link names was not given."""
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            return "a link that leaves the folder"
        return None if stat.S_ISREG(path.stat().st_mode) else "not a regular file"
    except RuntimeError:
        return "a link to itself"
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return "a link to nothing"
        return None  # reading it says why


def _skipped(path: Path, why: str) -> Problem:
    return _problem(str(path), None, f"{why}, skipped", "Give it by name to be told more")


def _problem(file: str, line: int | None, what: str, fix: str) -> Problem:
    return Problem(file=file, line=line, path="", what=what, fix=fix)
