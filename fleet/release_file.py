"""Read a release file: what it extends, and whether a frozen one was edited.

A frozen file is called by its own id, `<name>-<8 hex digits>.yaml`. Whoever
reads that id in a cluster finds the file; whoever edits the file is stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleet.credentials import credential_problems
from fleet.errors import ConfigError, Problem
from fleet.extends import read_extended
from fleet.own_settings import own_setting_problems
from fleet.presets import FILE_ENDINGS, NotFound, named_file
from fleet.release import ID_HASH_DIGITS, Release, moves, release_id
from fleet.schema import (
    DNS_LABEL_MAX,
    IMAGE_FIX,
    found_text,
    has_digest,
    image_without_digest,
    validate,
)
from fleet.yaml_document import Document, NodePath

_FROZEN_STEM = re.compile(rf".+-[0-9a-f]{{{ID_HASH_DIGITS}}}")


def read_release(path: Path) -> Document:
    """Read a release file laid over all that it extends; faults become problems."""
    return read_extended(path, known=Release.model_fields, find=_preset_or_path)


def check_release(path: Path) -> tuple[Release | None, list[Problem]]:
    """Read a release file and return its release, or None with everything wrong with it."""
    document = read_release(path)
    release, problems = validate(Release, document)
    if release is not None:
        problems += file_problems(document, release)
    return (None if problems else release), problems


def release_files(path: Path) -> list[Path]:
    """List the release files of a folder; a file stands for itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in FILE_ENDINGS)


def file_problems(
    document: Document, release: Release, *, to_freeze: bool = False
) -> list[Problem]:
    """Find what makes a valid release one that must not run, or must not be frozen."""
    problems = [
        *credential_problems(document, release),
        *own_setting_problems(document, release),
    ]
    if len(identity := release_id(release)) > DNS_LABEL_MAX:
        what = f"the id {identity} has {len(identity)} characters, labels hold {DNS_LABEL_MAX}"
        fix = f"Shorten the name to {DNS_LABEL_MAX - len(identity) + len(release.name)}"
        problems.append(document.problem(("name",), what, fix))
    problems += edited_problems(document, release)
    problems += _moving_revisions(document, release)
    if to_freeze or frozen_id(document.file, release):
        problems += _unpinned_problems(document, release)
    elif release.engine.image is not None and not has_digest(release.engine.image):
        problems.append(_unpinned(document, ("engine", "image"), release.engine.image))
    return problems


def edited_problems(document: Document, release: Release) -> list[Problem]:
    """Find whether a frozen file holds another release than its name says."""
    named = frozen_id(document.file, release)
    if named is None or named == release_id(release):
        return []
    what = f"its content is release {release_id(release)}, but its name says {named}"
    fix = "Do not edit a frozen release: restore it, or make a new one with `k3fleet release new`"
    return [Problem(file=document.file, line=None, path="", what=what, fix=fix)]


def frozen_id(file: str, release: Release) -> str | None:
    """Give the id that a file's name claims, or None for a file that may change.

    A file called like the release in it makes no claim: `nightly-20261129.yaml` with
    `name: nightly-20261129`.
    """
    stem = Path(file).stem
    return stem if _FROZEN_STEM.fullmatch(stem) and stem != release.name else None


def by_id(releases: Iterable[tuple[str, Release]]) -> dict[str, Release]:
    """Index (where from, release) by id; refuse one id for two contents."""
    found = list(releases)
    if problems := clash_problems(found):
        raise ConfigError.of(problems)
    return {release_id(release): release for _, release in found}


def clash_problems(releases: Iterable[tuple[str, Release]]) -> list[Problem]:
    """Find ids that two contents share: in a cluster nobody could tell the two apart."""
    first: dict[str, tuple[str, Release]] = {}
    problems = []
    for where, release in releases:
        name = release_id(release)
        other, known = first.setdefault(name, (where, release))
        if known != release:
            what = f"two releases have the id {name}, this one and {other}"
            fix = "Give one of them another name"
            problems.append(Problem(file=where, line=None, path="name", what=what, fix=fix))
    return problems


def _preset_or_path(name: str, folder: Path) -> Path | NotFound:
    return named_file("release", name, folder)


def _moving_revisions(document: Document, release: Release) -> Iterator[Problem]:
    """Refuse weights that change under one id: a restarted pod would answer otherwise."""
    revisions = {"weights": release.weights.revision}
    if release.speculation is not None:
        revisions["speculation"] = release.speculation.revision
    for section, revision in revisions.items():
        if moves(revision):
            what = f"{found_text(revision)} is whatever was pushed last"
            fix = "Give the commit, 40 hexadecimal digits; `git ls-remote REPOSITORY` prints it"
            yield document.problem((section, "revision"), what, fix)


def _unpinned_problems(document: Document, release: Release) -> list[Problem]:
    """Find the images that may change under a frozen release."""
    problems = []
    if release.engine.image is None:
        fix = "Give the image that you built, by digest"
        problems.append(document.problem(("engine", "image"), "the key is missing", fix))
    images = (("engine", release.engine.image), ("dynamo", release.dynamo.image))
    return problems + [
        _unpinned(document, (section, "image"), image)
        for section, image in images
        if image is not None and not has_digest(image)
    ]


def _unpinned(document: Document, path: NodePath, image: str) -> Problem:
    return document.problem(path, image_without_digest(image), IMAGE_FIX)
