"""Compare a folder with its manifest, and name what is wrong: corrupted, swapped, missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.weights.manifest import FileEntry, Manifest
from fleet.weights.names import shown
from fleet.weights.notes import Held, Note

Kind = Literal["missing", "extra", "truncated", "too-long", "corrupted", "swapped", "manifest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of one object without reading it, or after."""

    held: Held
    crc64nvme: str | None = None  # of the whole, as the store says
    note: Note | None = None  # of a reading: an earlier one, or now


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with a folder."""

    kind: Kind
    name: str
    what: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{shown(self.name)}: {self.kind}: {self.what}"


def compare(manifest: Manifest, seen: Mapping[str, Seen]) -> tuple[Finding, ...]:
    """Find everything in which a folder differs from its manifest."""
    found = []
    for entry in manifest.files:
        if entry.name not in seen:
            what = f"{entry.bytes} bytes are in the manifest, nothing is there"
            found.append(Finding(kind="missing", name=entry.name, what=what))
        elif finding := _compare_file(manifest, entry, seen[entry.name]):
            found.append(finding)
    known = manifest.by_name
    found += [
        Finding(kind="extra", name=name, what="is there, and not in the manifest")
        for name in sorted(seen)
        if name not in known
    ]
    return tuple(found)


def unread(manifest: Manifest, seen: Mapping[str, Seen]) -> tuple[str, ...]:
    """List the files of which only the size speaks: no checksum of the store, no reading."""
    return tuple(
        entry.name
        for entry in manifest.files
        if (one := seen.get(entry.name)) and one.crc64nvme is None and _valid(one) is None
    )


def _compare_file(manifest: Manifest, entry: FileEntry, seen: Seen) -> Finding | None:
    note = _valid(seen)
    right = (note.sha256 == entry.sha256) if note else (seen.crc64nvme in (None, entry.crc64nvme))
    size = seen.held.bytes
    if right and size == entry.bytes:
        return None
    other = next(
        (
            file.name
            for file in manifest.files
            if file.name != entry.name and file.bytes == size and _is(file, seen, note)
        ),
        None,
    )
    if other is not None:
        what = f"holds what belongs into {shown(other)}"
        return Finding(kind="swapped", name=entry.name, what=what)
    if size != entry.bytes:
        kind: Kind = "truncated" if size < entry.bytes else "too-long"
        return Finding(kind=kind, name=entry.name, what=f"{size} bytes of {entry.bytes}")
    digest = f"SHA-256 {note.sha256[:12]}…" if note else f"CRC-64 {seen.crc64nvme}"
    wanted = f"{entry.sha256[:12]}…" if note else entry.crc64nvme
    return Finding(kind="corrupted", name=entry.name, what=f"{digest}, not {wanted}")


def _is(file: FileEntry, seen: Seen, note: Note | None) -> bool:
    return note.sha256 == file.sha256 if note else seen.crc64nvme == file.crc64nvme


def _valid(seen: Seen) -> Note | None:
    return seen.note if seen.note and seen.note.describes(seen.held) else None
