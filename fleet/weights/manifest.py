"""Define the manifest of a revision: every file with its size and its SHA-256.

It lies beside the files and is written last, so a folder that has one was whole. Its own digest
is in it, which finds damage, and may be in the fleet file, which finds intent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, FailFast, Field, model_validator

from fleet.errors import Problem
from fleet.schema import Count, FileModel, Text, refuse, validate
from fleet.weights.json_document import read_json
from fleet.weights.names import MANIFEST, clashes, missing_shards, name_fault
from fleet.weights.needs import WeightSet

MAX_BYTES = 4 * 1024 * 1024  # 110 files take 25 kB
MAX_FILE_BYTES = 50 * 10**12  # the largest object of Amazon S3 since December 2025: 50 TB
_REPAIR = "Do not use this folder; make it anew with `k3fleet weights sync`"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Crc64 = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


def _name(text: str) -> str:
    if fault := name_fault(text):
        raise refuse(fault, _REPAIR)
    return text


class FileEntry(FileModel):
    """One file of a revision."""

    name: Annotated[str, AfterValidator(_name)]
    bytes: Annotated[Count, Field(le=MAX_FILE_BYTES)]
    sha256: Sha256
    crc64nvme: Crc64  # what stores keep of an object; it finds accidents, not intent


class Manifest(FileModel):
    """All files of one revision of one repository."""

    format: Literal["k3fleet-weights/v1"] = "k3fleet-weights/v1"
    repo: Text
    revision: Text
    # One fault is enough: a hostile list of a million wrong entries would take a minute.
    files: Annotated[tuple[FileEntry, ...], FailFast()] = Field(min_length=1)
    content_sha256: Sha256 = ""  # of everything above

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [entry.name for entry in self.files]
        if faults := clashes(names):
            raise refuse(faults[0], _REPAIR)
        if missing := missing_shards(names):
            raise refuse(f"{', '.join(missing[:5])} is not in it", _REPAIR)
        if names != sorted(names):
            raise refuse("its files are not in order", _REPAIR)
        return self

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(entry.bytes for entry in self.files)

    @property
    def by_name(self) -> Mapping[str, FileEntry]:
        """The files by their names."""
        return {entry.name: entry for entry in self.files}

    def to_bytes(self) -> bytes:
        """Write it; the same manifest always gives the same bytes."""
        return (json.dumps(self.model_dump(mode="json"), indent=1) + "\n").encode()

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest as it is written."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


def make_manifest(weights: WeightSet, files: Mapping[str, FileEntry]) -> Manifest:
    """Make the manifest of a revision; ValidationError when a name is not safe."""
    made = Manifest(
        repo=weights.repo,
        revision=weights.revision,
        files=tuple(files[name] for name in sorted(files)),
    )
    return made.model_copy(update={"content_sha256": _content_digest(made)})


def read_manifest(
    content: bytes, where: str, weights: WeightSet, pinned: str | None = None
) -> tuple[Manifest | None, list[Problem]]:
    """Read a manifest that should be of these weights: it, or every fault of it.

    `pinned`: the digest that somebody wrote down when the manifest was made.
    """
    where = f"{where}/{MANIFEST}"
    document = read_json(content, where, MAX_BYTES)
    manifest, problems = validate(Manifest, document)
    if manifest is None:
        return None, problems
    for key, found, wanted in (
        ("repo", manifest.repo, weights.repo),
        ("revision", manifest.revision, weights.revision),
    ):
        if found != wanted:
            what = f"is of another model: {found[:200]!a}, not {wanted}"
            fix = "Somebody has put other weights here; give this revision a prefix of its own"
            problems.append(document.problem((key,), what, fix))
    if manifest.content_sha256 != _content_digest(manifest):
        what = "does not go with what is above it: the manifest was damaged or edited"
        problems.append(document.problem(("content_sha256",), what, _REPAIR))
    if pinned is not None and hashlib.sha256(content).hexdigest() != pinned:
        what = f"has another digest than `weights.manifests` of the fleet file: not {pinned[:12]}…"
        fix = "Find out who changed it, before any node loads these weights"
        problems.append(document.problem((), what, fix))
    return (None if problems else manifest), problems


def _content_digest(manifest: Manifest) -> str:
    content = manifest.model_dump(mode="json", exclude={"content_sha256"})
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
