"""Write a release down: flat, in one order, and what differs between two.

Nothing is left out that has a value, so that a reader needs no other file and no
list of defaults.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml
from pydantic import BaseModel

from fleet.engine_args import flag_words
from fleet.release import Release, release_id
from fleet.yaml_merge import ARGS

_NUMBER_LIKE = re.compile(r"[-+]?[.0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that differs between two releases; None: it has no value there."""

    path: str
    old: str | None
    new: str | None


class _Dumper(yaml.CSafeDumper):
    """Quotes text that our own reader, of a newer YAML than this writer, takes for a number."""

    def ignore_aliases(self, data: object) -> bool:
        """Write equal parts out: our reader refuses aliases."""
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if _NUMBER_LIKE.match(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def release_data(release: Release) -> dict[str, object]:
    """Give a release as plain data under the keys of a release file, in their order."""
    return _model_data(release)


def release_yaml(release: Release) -> str:
    """Write a release as YAML, without comments."""
    text: str = yaml.dump(
        release_data(release),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=1_000_000,  # one argument, one line: folded text is hard to search
    )
    return text


def frozen_text(release: Release, source: str) -> str:
    """Write the file of a frozen release, with where it comes from in its first line."""
    origin = source if source.isprintable() else repr(source)
    note = f"made from {origin} by `k3fleet release new`. Do not edit: the name is its content."
    return f"# {release_id(release)}: {note}\n{release_yaml(release)}"


def changes(old: Release, new: Release) -> list[Change]:
    """List the fields that differ, in the order of a release file; none: the same content."""
    before, after = release_data(old), release_data(new)
    ours, theirs = dict(_fields(before, "")), dict(_fields(after, ""))
    fields = [
        Change(path=path, old=ours.get(path), new=theirs.get(path))
        for path in {**ours, **theirs}
        if ours.get(path) != theirs.get(path)
    ]
    return fields + _moved(dict(_args(before, "")), dict(_args(after, "")))


def _model_data(model: BaseModel) -> dict[str, object]:
    named = ((field.alias or name, name) for name, field in type(model).model_fields.items())
    values = ((key, getattr(model, name)) for key, name in named)
    return {key: _data(value) for key, value in values if value is not None}


def _data(value: object) -> object:
    if isinstance(value, BaseModel):
        return _model_data(value)
    if isinstance(value, tuple):
        return [_data(item) for item in value]
    if isinstance(value, dict):  # their order means nothing, so that it may as well be one
        return dict(sorted(value.items()))
    return value


def _fields(data: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    """Give every field as (path, text); each flag of `args` is a field of its own."""
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _fields(value, f"{path}.")
        elif key == ARGS and isinstance(value, list):
            for flag, words in _words_by_flag(value).items():
                yield f"{path}.{flag}".rstrip("."), shlex.join(words)
        else:
            yield path, value if isinstance(value, str) else json.dumps(value)


def _words_by_flag(args: list[object]) -> dict[str, list[str]]:
    by_flag: dict[str, list[str]] = {}
    for part in flag_words(args):
        by_flag.setdefault(part.flag, []).extend(str(args[index]) for index in part.words)
    return by_flag


def _args(data: Mapping[str, object], prefix: str) -> Iterator[tuple[str, list[str]]]:
    """Give every list of arguments as (path, its flags in their order)."""
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _args(value, f"{path}.")
        elif key == ARGS and isinstance(value, list):
            yield path, [part.flag for part in flag_words(value)]


def _moved(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[Change]:
    """Find flags that only changed their place: engines may take the last of two."""
    moved = []
    for path in before.keys() & after.keys():
        both = set(before[path]) & set(after[path])
        ours, theirs = (
            " ".join(flag for flag in side[path] if flag in both) for side in (before, after)
        )
        if ours != theirs:
            moved.append(Change(path=f"{path} (order)", old=ours, new=theirs))
    return sorted(moved, key=lambda change: change.path)
