"""Compute the digests of a stream: SHA-256 for proof, CRC-64/NVME for what stores keep."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable

from awscrt import checksums

from fleet.weights.manifest import FileEntry
from fleet.weights.notes import Held, Note


def read_digests(chunks: Iterable[bytes], held: Held, seen: Callable[[int], None]) -> Note:
    """Read an object to its end; `seen` is told of each chunk's size before it is counted."""
    sha256, crc, size = hashlib.sha256(), 0, 0
    for chunk in chunks:
        seen(len(chunk))
        sha256.update(chunk)
        crc = checksums.crc64nvme(chunk, crc)
        size += len(chunk)
    return Note(etag=held.etag, bytes=size, sha256=sha256.hexdigest(), crc64nvme=f"{crc:016x}")


def entry_of(name: str, note: Note) -> FileEntry:
    """Describe a file by what was read of it."""
    return FileEntry(name=name, bytes=note.bytes, sha256=note.sha256, crc64nvme=note.crc64nvme)


def crc_header(content: bytes | bytearray) -> str:
    """Give the CRC-64/NVME of a part as stores want it."""
    return base64.b64encode(checksums.crc64nvme(content).to_bytes(8, "big")).decode()


def crc_of_hex(digits: str) -> str:
    """Write the CRC of a manifest as stores want it."""
    return base64.b64encode(bytes.fromhex(digits)).decode()


def md5_header(content: bytes | bytearray) -> str:
    """Give the MD5 of a body as stores want it: it finds what the wire broke, and no more."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
