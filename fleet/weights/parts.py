"""Cut a file into the parts of a multipart upload, and decide how to go on with one.

The limits are those of Amazon S3 (user guide, "Multipart upload limits"), which other stores
keep to: parts of 5 MiB to 5 GiB, but for the last, and 10,000 of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.weights.manifest import FileEntry
from fleet.weights.notes import Begun, Held, Note

MIB = 1024 * 1024
MIN_PART_BYTES = 5 * MIB
MAX_PART_BYTES = 5 * 1024 * MIB
MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a file: bytes `start` to `end`, without `end`."""

    number: int  # from 1
    start: int
    end: int

    @property
    def bytes(self) -> int:
        """How large it is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A multipart upload that somebody began and nobody has ended."""

    key: str
    id: str
    parts: Mapping[int, int]  # number -> bytes
    begun_s: float = 0.0  # Unix time, by the store's clock

    @property
    def bytes(self) -> int:
        """How much of it is there."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do: the object was read, and is right."""


@dataclass(frozen=True, slots=True)
class Check:
    """The object is there; nobody has read it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send the missing parts, into an upload that is there or a new one."""

    upload: str | None
    missing: tuple[Part, ...]
    useless: tuple[str, ...]  # uploads that nothing will come of


def plan_parts(size: int, part_bytes: int) -> tuple[Part, ...]:
    """Cut a file into parts; into larger ones than asked for where there would be too many."""
    least = -(-size // MAX_PARTS)
    if least > part_bytes:
        part_bytes = -(-least // MIB) * MIB
    starts = range(0, max(size, 1), part_bytes)
    return tuple(
        Part(number=number, start=start, end=min(start + part_bytes, size))
        for number, start in enumerate(starts, start=1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is in the bucket of a file that should be there."""

    held: Held | None
    note: Note | None  # of an earlier reading of the object
    uploads: tuple[Upload, ...]
    begun: Begun | None  # the upload that our notes know


def next_step(
    entry: FileEntry, found: Found, source_etag: str, part_bytes: int
) -> Done | Check | Send:
    """Decide how to go on with a file, from what the bucket holds of it."""
    if found.held is not None and found.held.bytes == entry.bytes:
        note = found.note
        if note is None or not note.describes(found.held):
            return Check()
        if note.sha256 == entry.sha256:
            return Done()
    parts = plan_parts(entry.bytes, part_bytes)
    fits = [upload for upload in found.uploads if _fits(upload, parts, found.begun, source_etag)]
    best = max(fits, key=lambda upload: (upload.bytes, upload.id), default=None)
    there = best.parts if best else {}
    return Send(
        upload=best.id if best else None,
        missing=tuple(part for part in parts if part.number not in there),
        useless=tuple(upload.id for upload in found.uploads if upload is not best),
    )


def stale(uploads: Iterable[Upload], now_s: float, older_than_s: float) -> tuple[Upload, ...]:
    """Choose the uploads that nobody has gone on with for too long to expect it."""
    return tuple(upload for upload in uploads if now_s - upload.begun_s > older_than_s)


def _fits(upload: Upload, parts: tuple[Part, ...], begun: Begun | None, source_etag: str) -> bool:
    """Say whether the parts of an upload are those that we would send.

    One that our notes do not know may be ours too: they are written after it was begun. Whatever
    it holds, the whole object is read before anybody relies on it.
    """
    if begun is not None and begun.id == upload.id and begun.source_etag != source_etag:
        return False
    sizes = {part.number: part.bytes for part in parts}
    return all(sizes.get(number) == size for number, size in upload.parts.items())
