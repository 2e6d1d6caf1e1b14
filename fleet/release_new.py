"""Make a release out of another one and some changes.

The changes are a small document laid over the other release's file, so that they
follow the rules of `extends`, and a wrong one is named like a wrong line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from fleet.credentials import credential_fault
from fleet.errors import ConfigError
from fleet.extends import EXTENDS
from fleet.model_paths import model_at
from fleet.presets import NotFound, named_file
from fleet.release import Release
from fleet.release_file import (
    edited_problems,
    file_problems,
    read_release,
)
from fleet.schema import found_text, validate
from fleet.yaml_document import Document, NodePath, parse_document
from fleet.yaml_merge import ARGS, lay_over

_VALUE = "value"
Option = tuple[NodePath, object, str]  # what is set, to what, and how it was given


def new_release(
    name: str, source: str, settings: Iterable[str], image: str | None, *, beside: Path
) -> Release:
    """Lay settings (`key.path=value`) over a preset or file; raise ConfigError with every fault.

    The result names its images by digest: it is meant to be frozen.
    """
    base = _source(source, beside)
    options = [_setting(text) for text in settings]
    if image is not None:
        options.append((("engine", "image"), image, f"--image {image}"))
    options.append((("name",), name, "NAME"))
    document = lay_over(base, _document(options))
    release, problems = validate(Release, document)
    if release is not None:
        problems += file_problems(document, release, to_freeze=True)
    if release is None or problems:
        raise ConfigError.of(problems)
    return release


def _source(source: str, beside: Path) -> Document:
    found = named_file("release", source, beside.parent)
    if isinstance(found, NotFound):
        raise ConfigError(f"--from: {found.what}. {found.fix}.")
    document = read_release(found)
    if document.unreadable:
        raise ConfigError.of(document.problems)
    alone, _ = validate(Release, document)  # what is wrong with its values may be corrected here
    if alone is not None and (edited := edited_problems(document, alone)):
        raise ConfigError.of(edited)
    return document


def _setting(text: str) -> Option:
    given = f"--set {text}"
    key, equals, value = text.partition("=")
    path = tuple(key.split("."))
    if not equals or "" in path:
        raise ConfigError(f"{given}: is not key.path=value. Write for example max_num_seqs=64.")
    if path[0] in ("name", EXTENDS):
        raise ConfigError(f"{given}: {path[0]} is not set here. Use NAME and --from.")
    shown = given
    if credential_fault(path[-1], value) or credential_fault(None, value):
        shown = f"--set {key}=..."  # it is refused, and the message goes into logs
    read = value if _is_text(path) else _yaml_value(value, shown)
    if ARGS in path and not (path[-1] == ARGS and isinstance(read, list | None)):
        raise ConfigError(
            f"{shown}: {ARGS} is a list of flags. Write for example --set '{ARGS}=[\"--flag=1\"]': "
            "each takes the place of the same flag."
        )
    return path, read, shown


def _yaml_value(value: str, given: str) -> object:
    document = parse_document(f"{_VALUE}: {value}", given)
    if document.problems or not isinstance(document.data, dict) or len(document.data) != 1:
        raise ConfigError(
            f"{given}: {found_text(value)} is not a YAML value. "
            "Write a number, a word, or a list such as ['--flag=1']."
        )
    return document.data[_VALUE]


def _is_text(path: NodePath) -> bool:
    """Say whether a field holds text, so that `dynamo.version=1.6` needs no quotes."""
    owner = model_at(Release, path[:-1])
    if owner is None or path[-1] not in owner.model_fields:
        return "env" in path[:-1]
    return _holds_text(owner.model_fields[str(path[-1])].annotation)


def _holds_text(annotation: object) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(_holds_text(part) for part in get_args(annotation))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation is str


def _document(options: Iterable[Option]) -> Document:
    """Make a document of options, in which every path stands in its option."""
    data: dict[str, object] = {}
    origins: dict[NodePath, str] = {}
    for path, value, given in options:
        owner = data
        for part in path[:-1]:
            inner = owner.setdefault(str(part), {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{given}: {part} is set by another option. Give one of them.")
            owner = inner
        if path[-1] in owner:
            raise ConfigError(f"{given}: is set twice. Give one of them.")
        owner[str(path[-1])] = value
        origins[path] = given
    return Document(
        file="--set",
        data=data,
        lines=dict.fromkeys(origins),
        problems=(),
        broken=frozenset(),
        origins=origins,
    )
