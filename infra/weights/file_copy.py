"""Copy one file into a region's bucket, from wherever an earlier attempt ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from fleet.errors import WeightsError
from fleet.weights.manifest import FileEntry
from fleet.weights.notes import Begun, Held
from fleet.weights.parts import Check, Done, Found, Part, Send, Upload, next_step, plan_parts
from infra.weights.digests import read_digests
from infra.weights.notes_keeper import NotesKeeper
from infra.weights.store import Store
from infra.weights.store_errors import AbsentError, ChangedError, DamagedError
from infra.weights.uploads import From, Uploads
from infra.weights.work import Work

ATTEMPTS = 3  # a file that is wrong after three copies is wrong at its source
SENDS = 3  # of one part, when what arrives is not what was sent

# How a copy is believed: every byte is read back, or the store is asked for its checksum.
CheckBy = Literal["reading", "checksum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the files of one revision are copied to, and what that takes."""

    source: Store
    target: Store
    revision: str
    keeper: NotesKeeper  # of the target
    work: Work
    check_by: CheckBy = "reading"

    @property
    def copies_itself(self) -> bool:
        """Whether the store copies from one bucket to the other, and no byte comes past here."""
        return self.source.spec.shares_copies_with(self.target.spec)

    @property
    def part_bytes(self) -> int:
        """How large parts are."""
        limits = self.work.limits
        return limits.copy_bytes if self.copies_itself else limits.part_bytes


class FileCopy:
    """One file on its way."""

    def __init__(self, place: Place, entry: FileEntry, source_etag: str) -> None:
        self._place, self._entry, self._source_etag = place, entry, source_etag
        self._key = place.target.key(place.revision, entry.name)
        self._source_key = place.source.key(place.revision, entry.name)
        self._uploads = Uploads(place.target)

    def run(self, held: Held | None, uploads: tuple[Upload, ...]) -> None:
        """Bring the file into the bucket and read it back; `held`, `uploads`: what is there."""
        for _ in range(ATTEMPTS):
            step = next_step(
                self._entry, self._found(held, uploads), self._source_etag, self._place.part_bytes
            )
            if isinstance(step, Done):
                return
            if isinstance(step, Send):
                self._send(step)
                held, uploads = self._held(), ()
            if held is not None and self._is_right(held):
                return
        raise WeightsError(
            f"{self._place.target.where(self._key)}: wrong after {ATTEMPTS} copies. "
            f"{self._place.source.where(self._source_key)} may have been damaged since its "
            "manifest was made: run `k3fleet weights verify --source --deep`."
        )

    def plan(self, held: Held | None, uploads: tuple[Upload, ...]) -> Done | Check | Send:
        """Say what `run` would begin with."""
        found = self._found(held, uploads)
        return next_step(self._entry, found, self._source_etag, self._place.part_bytes)

    def _found(self, held: Held | None, uploads: tuple[Upload, ...]) -> Found:
        notes, name = self._place.keeper.notes, self._entry.name
        return Found(
            held=held, note=notes.read.get(name), uploads=uploads, begun=notes.begun.get(name)
        )

    def _held(self) -> Held | None:
        seen = self._place.target.look(self._key)
        return seen.held if seen else None

    def _is_right(self, held: Held) -> bool:
        if self._place.check_by == "checksum" and (crc := self._stored_crc(held)):
            self._place.work.skip(self._entry.bytes)
            return crc == self._entry.crc64nvme
        try:
            chunks = self._place.target.read(self._key, held.etag, 0, held.bytes)
            note = read_digests(chunks, held, self._place.work.allow)
        except ChangedError as error:
            raise WeightsError(str(error)) from error
        self._place.keeper.note(self._entry.name, note)
        return note.sha256 == self._entry.sha256

    def _stored_crc(self, held: Held) -> str | None:
        seen = self._place.target.look(self._key)
        return seen.crc64nvme if seen and seen.held == held else None

    def _send(self, step: Send) -> None:
        for upload in step.useless:
            self._uploads.abort(self._key, upload)
        if self._entry.bytes <= self._place.work.limits.whole_bytes:
            self._send_whole(step)
        else:
            self._send_parts(step)
        self._require_unchanged()

    def _send_whole(self, step: Send) -> None:
        if step.upload is not None:  # begun when parts were smaller
            self._uploads.abort(self._key, step.upload)
        content = self._content(Part(number=1, start=0, end=self._entry.bytes))
        self._sent(partial(self._uploads.send_whole, self._key, content))

    def _send_parts(self, step: Send) -> None:
        upload = step.upload
        if upload is None:
            upload = self._uploads.begin(self._key)
            begun = Begun(id=upload, source_etag=self._source_etag)
            self._place.keeper.begun(self._entry.name, begun)
        missing = sum(part.bytes for part in step.missing)
        self._place.work.skip(self._entry.bytes - missing)
        self._place.work.parts(partial(self._send_part, upload, part) for part in step.missing)
        parts = plan_parts(self._entry.bytes, self._place.part_bytes)
        try:
            self._uploads.complete(self._key, upload, self._entry, parts)
        except AbsentError:
            if self._held() is None:  # else it was completed, and the answer was lost
                raise

    def _send_part(self, upload: str, part: Part) -> None:
        if self._place.copies_itself:
            self._place.work.allow(part.bytes)
            source = From(store=self._place.source, key=self._source_key, etag=self._source_etag)
            try:
                self._uploads.copy(self._key, upload, part, source)
            except ChangedError as error:
                raise self._changed() from error
            return
        content = self._content(part)
        self._sent(lambda: self._uploads.send(self._key, upload, part, content))

    def _content(self, part: Part) -> bytearray:
        content, at = bytearray(part.bytes), 0  # whole at once: growing it would take twice as much
        try:
            for chunk in self._chunks(part):
                self._place.work.allow(len(chunk))
                content[at : at + len(chunk)] = chunk
                at += len(chunk)
        except ChangedError as error:
            raise self._changed() from error
        return content

    def _chunks(self, part: Part) -> Iterator[bytes]:
        return self._place.source.read(self._source_key, self._source_etag, part.start, part.end)

    def _sent(self, send: Callable[[], None]) -> None:
        """Send something again when it was damaged on its way."""
        for attempt in range(1, SENDS + 1):
            try:
                send()
            except DamagedError:
                if attempt == SENDS:
                    raise
            else:
                return

    def _require_unchanged(self) -> None:
        """Ask the source once more: not every store obeys the condition of a copy."""
        seen = self._place.source.look(self._source_key)
        if seen is None or seen.held.etag != self._source_etag:
            raise self._changed()

    def _changed(self) -> WeightsError:
        return WeightsError(
            f"{self._place.source.where(self._source_key)}: was changed while it was copied. "
            "Its revision must not change: see who wrote it, restore it, and run it again."
        )
