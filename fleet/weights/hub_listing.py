"""Read what a hub says of the files of a revision: its listing, saved as a file.

`https://huggingface.co/api/models/REPO/tree/REVISION?recursive=true` gives it. A large file has
its SHA-256 there; a small one only git's, which says too little to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.errors import ConfigError
from fleet.weights.json_document import read_json
from fleet.weights.manifest import FileEntry
from fleet.weights.names import shown

MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file as the hub lists it."""

    bytes: int
    sha256: str | None


def read_listing(content: bytes, where: str) -> Mapping[str, Listed]:
    """Read a listing; raise ConfigError for what is none."""
    document = read_json(content, where, MAX_BYTES)
    if document.problems:
        raise ConfigError.of(document.problems)
    items = document.data if isinstance(document.data, list) else None
    if items is None or not all(isinstance(item, dict) for item in items):
        raise ConfigError(f"{where}: is no list of files. Save the answer of the hub as it is.")
    found = {}
    for item in items:
        if item.get("type") != "file":
            continue
        large = item.get("lfs") if isinstance(item.get("lfs"), dict) else {}
        digest = large.get("oid")
        sha256 = digest if isinstance(digest, str) and len(digest) == 64 else None
        size = large.get("size", item.get("size"))
        if not isinstance(item.get("path"), str) or not isinstance(size, int):
            raise ConfigError(
                f"{where}: a file has no path or size. Save the hub's answer as it is."
            )
        found[item["path"]] = Listed(bytes=size, sha256=sha256)
    return found


def differences(listed: Mapping[str, Listed], files: Mapping[str, FileEntry]) -> list[str]:
    """Say in which files a source differs from the hub; files that only the source has are fine."""
    found = []
    for name, wanted in sorted(listed.items()):
        entry = files.get(name)
        if entry is None:
            found.append(f"{shown(name)} is missing")
        elif entry.bytes != wanted.bytes:
            found.append(f"{shown(name)} has {entry.bytes} bytes, {wanted.bytes} at the hub")
        elif wanted.sha256 not in (None, entry.sha256):
            found.append(f"{shown(name)} has another SHA-256 than at the hub")
    return found
