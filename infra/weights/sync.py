"""Fill one region's bucket with the revisions that releases need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from fleet.errors import WeightsError
from fleet.weights.findings import Finding, Seen, compare, unread
from fleet.weights.manifest import MAX_BYTES, Manifest, read_manifest
from fleet.weights.names import MANIFEST, OURS
from fleet.weights.needs import WeightSet
from fleet.weights.notes import Held
from fleet.weights.parts import Check, Done, Send, Upload
from infra.weights.file_copy import FileCopy, Place
from infra.weights.lock import BucketLock
from infra.weights.source import Known
from infra.weights.store_errors import ChangedError
from infra.weights.uploads import Uploads


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a region's folder of a revision holds before anything is done."""

    held: Mapping[str, Held]
    uploads: Mapping[str, tuple[Upload, ...]]  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left to do for one revision in one region."""

    weights: WeightSet
    files: int
    total_bytes: int
    send: tuple[str, ...]
    send_bytes: int
    check: tuple[str, ...]  # there, and not read yet
    check_bytes: int
    is_published: bool  # its manifest is there


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionSync:
    """One revision on its way into one region."""

    weights: WeightSet
    known: Known
    place: Place
    pinned: str | None
    say: Callable[[str], None] = field(default=lambda _line: None)

    def left(self) -> Left:
        """Look at what is there, and say what is left to do; changes nothing."""
        published = self._published()
        contents = self._contents()
        steps = {
            name: copy.plan(contents.held.get(name), contents.uploads.get(name, ()))
            for name, copy in self._copies().items()
        }
        checks = [name for name, step in steps.items() if isinstance(step, Check)]
        sends = {name: step for name, step in steps.items() if isinstance(step, Send)}
        sizes = self.known.manifest.by_name
        return Left(
            weights=self.weights,
            files=len(steps),
            total_bytes=self.known.manifest.total_bytes,
            send=tuple(sends),
            send_bytes=sum(part.bytes for step in sends.values() for part in step.missing),
            check=tuple(checks),
            check_bytes=sum(sizes[name].bytes for name in checks),
            is_published=published is not None,
        )

    def run(self, lock: BucketLock) -> None:
        """Copy what is missing, read it back, and write the manifest last."""
        published = self._published()
        contents = self._contents()
        # Each byte is moved twice: into the bucket, and out of it again to be read.
        self.place.work.expect(2 * self.known.manifest.total_bytes)
        self.place.work.files(
            partial(self._run_file, lock, copy, contents, name)
            for name, copy in self._copies().items()
        )
        self._require_right()
        if published is None:
            self._publish(lock)

    def _run_file(self, lock: BucketLock, copy: FileCopy, contents: Contents, name: str) -> None:
        lock.require()
        held, uploads = contents.held.get(name), contents.uploads.get(name, ())
        size = self.known.manifest.by_name[name].bytes
        match copy.plan(held, uploads):
            case Done():
                self.place.work.skip(2 * size)
                for upload in uploads:
                    Uploads(self.place.target).abort(upload.key, upload.id)
                return
            case Check():
                self.place.work.skip(size)
        copy.run(held, uploads)

    def _copies(self) -> Mapping[str, FileCopy]:
        return {
            entry.name: FileCopy(self.place, entry, self.known.held[entry.name].etag)
            for entry in self.known.manifest.files
        }

    def _contents(self) -> Contents:
        target, revision = self.place.target, self.weights.revision
        uploads: dict[str, list[Upload]] = {}
        folder = target.below(revision)
        for upload in Uploads(target).open(revision):
            uploads.setdefault(upload.key.removeprefix(folder), []).append(upload)
        return Contents(
            held={one.name: one.held for one in target.objects(revision)},
            uploads={name: tuple(each) for name, each in uploads.items()},
        )

    def _published(self) -> Manifest | None:
        """Read the region's manifest; WeightsError when it is not the source's."""
        target = self.place.target
        where = target.where(target.key(self.weights.revision))
        kept = target.small(target.key(self.weights.revision, MANIFEST), MAX_BYTES)
        if kept is None:
            return None
        manifest, problems = read_manifest(kept.content, where, self.weights, self.pinned)
        if manifest is None:
            raise WeightsError("\n".join(map(str, problems)))
        if manifest != self.known.manifest:
            raise WeightsError(
                f"{where}/{MANIFEST}: is not the manifest of the source. One was made anew: see "
                "which is right (`k3fleet weights verify --deep`), and delete the other."
            )
        return manifest

    def _require_right(self) -> None:
        """Compare the whole folder with the manifest, before anybody may rely on it."""
        seen: dict[str, Seen] = {}
        for one in self.place.target.objects(self.weights.revision):
            if one.name in OURS:
                continue
            note = self.place.keeper.notes.read.get(one.name)
            valid = note if note and note.describes(one.held) else None
            seen[one.name] = Seen(held=one.held, note=valid)
            if valid is None:
                key = self.place.target.key(self.weights.revision, one.name)
                seen[one.name] = self.place.target.look(key) or seen[one.name]
        findings = compare(self.known.manifest, seen)
        findings += tuple(
            Finding(kind="corrupted", name=name, what="is no longer what was read")
            for name in unread(self.known.manifest, seen)
            if name not in {finding.name for finding in findings}
        )
        for finding in findings:
            if finding.kind == "extra":
                self.say(f"{self.place.target.place}: {finding}; left alone")
        wrong = [finding for finding in findings if finding.kind != "extra"]
        if wrong:
            raise WeightsError(self._told(wrong))

    def _told(self, wrong: list[Finding]) -> str:
        listed = "; ".join(map(str, wrong[:10]))
        where = self.place.target.where(self.place.target.key(self.weights.revision))
        return f"{where}: somebody changed it meanwhile: {listed}. See who, then run it again."

    def _publish(self, lock: BucketLock) -> None:
        lock.require()
        target = self.place.target
        key = target.key(self.weights.revision, MANIFEST)
        try:
            target.put(key, self.known.manifest.to_bytes(), only="")
        except ChangedError:
            if self._published() is None:
                raise


def sync_region(lock: BucketLock, revisions: list[RevisionSync]) -> None:
    """Fill a region, one revision after the other, while nobody else does."""
    revisions[0].place.target.check_region()
    with lock.held():
        for revision in revisions:
            revision.run(lock)
