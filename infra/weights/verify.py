"""Hold a folder against its manifest, and name everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fleet.weights.findings import Finding, Seen, compare, unread
from fleet.weights.manifest import MAX_BYTES, Manifest, read_manifest
from fleet.weights.names import MANIFEST, OURS
from fleet.weights.needs import WeightSet
from fleet.weights.notes import Note
from infra.weights.digests import read_digests
from infra.weights.notes_keeper import NotesKeeper
from infra.weights.store import Object, Store
from infra.weights.store_errors import ChangedError
from infra.weights.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What is to be said of one folder."""

    place: str
    weights: WeightSet
    deep: bool  # every byte was read
    digest: str  # of its manifest; empty when that is missing or wrong
    findings: tuple[Finding, ...]
    sizes_only: tuple[str, ...]  # files of which only the size was compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """One folder and its manifest."""

    store: Store
    weights: WeightSet
    pinned: str | None
    keeper: NotesKeeper | None  # None: notes are not asked, and none are written
    work: Work

    def run(self, *, deep: bool, like: Manifest | None = None) -> Verified:
        """Verify it; `like`: the manifest of the source, which this one must be."""
        place = self.store.where(self.store.key(self.weights.revision))
        objects = list(self.store.objects(self.weights.revision))
        manifest, findings = self._manifest(place, like)
        if manifest is None:
            return self._verified(place, deep, "", findings, ())
        files = {one.name: one for one in objects if one.name not in OURS}
        seen = self._read(files) if deep else self._looked(files)
        findings += compare(manifest, seen)
        return self._verified(
            place, deep, manifest.digest, findings, () if deep else unread(manifest, seen)
        )

    def _verified(
        self,
        place: str,
        deep: bool,
        digest: str,
        findings: tuple[Finding, ...],
        sizes_only: tuple[str, ...],
    ) -> Verified:
        return Verified(
            place=place,
            weights=self.weights,
            deep=deep,
            digest=digest,
            findings=findings,
            sizes_only=sizes_only,
        )

    def _manifest(
        self, place: str, like: Manifest | None
    ) -> tuple[Manifest | None, tuple[Finding, ...]]:
        key = self.store.key(self.weights.revision, MANIFEST)
        kept = self.store.small(key, MAX_BYTES)
        if kept is None:
            what = "there is none: the folder was never whole"
            return None, (Finding(kind="manifest", name=MANIFEST, what=what),)
        manifest, problems = read_manifest(kept.content, place, self.weights, self.pinned)
        if manifest is None:
            return None, tuple(
                Finding(
                    kind="manifest",
                    name=MANIFEST,
                    what=f"{problem.path}: {problem.what}" if problem.path else problem.what,
                )
                for problem in problems
            )
        if like is not None and manifest != like:
            what = f"is not the source's: digest {manifest.digest[:12]}…, not {like.digest[:12]}…"
            return manifest, (Finding(kind="manifest", name=MANIFEST, what=what),)
        return manifest, ()

    def _looked(self, files: Mapping[str, Object]) -> Mapping[str, Seen]:
        seen: dict[str, Seen] = {}

        def look(name: str, one: Object) -> None:
            found = self.store.look(self.store.key(self.weights.revision, name))
            note = self.keeper.notes.read.get(name) if self.keeper else None
            crc = found.crc64nvme if found else None
            seen[name] = Seen(held=one.held, crc64nvme=crc, note=note)

        self.work.files(partial(look, name, one) for name, one in files.items())
        return seen

    def _read(self, files: Mapping[str, Object]) -> Mapping[str, Seen]:
        seen: dict[str, Seen] = {}
        self.work.expect(sum(one.held.bytes for one in files.values()))

        def read(name: str, one: Object) -> None:
            note = self._read_file(name, one)
            seen[name] = Seen(held=one.held, note=note)

        self.work.files(partial(read, name, one) for name, one in files.items())
        return seen

    def _read_file(self, name: str, one: Object) -> Note | None:
        key = self.store.key(self.weights.revision, name)
        try:
            chunks = self.store.read(key, one.held.etag, 0, one.held.bytes)
            return read_digests(chunks, one.held, self.work.allow)
        except ChangedError as error:
            raise error.__class__(
                f"{self.store.where(key)}: was changed while it was read. "
                "Wait until nobody writes there (`k3fleet weights status`), then verify again."
            ) from error
