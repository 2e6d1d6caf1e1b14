"""Define the notes beside the files of a revision: what has been read, what has been begun.

They save work and prove nothing: a note holds while the object's tag is the one that was read,
and `k3fleet weights verify --deep` asks no note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fleet.schema import Count, FileModel, validate
from fleet.weights.json_document import read_json

MAX_BYTES = 4 * 1024 * 1024
Tag = Annotated[str, Field(min_length=1, max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An object that is there: its size, and the tag that changes with its content."""

    bytes: int
    etag: str


class Note(FileModel):
    """What somebody found who read a whole object."""

    etag: Tag
    bytes: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    crc64nvme: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]

    def describes(self, held: Held) -> bool:
        """Say whether the object is still the one that was read."""
        return (self.etag, self.bytes) == (held.etag, held.bytes)


class Begun(FileModel):
    """What an upload is fed from: parts of another source do not belong into it."""

    id: Annotated[str, Field(min_length=1, max_length=2000)]
    source_etag: Tag


class Notes(FileModel):
    """All notes of one folder, by the names of its files."""

    format: Literal["k3fleet-notes/v1"] = "k3fleet-notes/v1"
    read: dict[str, Note] = Field(default_factory=dict)
    begun: dict[str, Begun] = Field(default_factory=dict)

    def joined(self, newer: Notes) -> Notes:
        """Add what others have noted, whose words count where both speak of a file."""
        return Notes(read=self.read | newer.read, begun=self.begun | newer.begun)


def read_notes(content: bytes) -> Notes:
    """Read notes; damaged ones are none, which costs a reading and no more."""
    notes, _ = validate(Notes, read_json(content, "notes", MAX_BYTES))
    return notes or Notes()
