"""Delete revisions that no release in use needs, and uploads that nobody goes on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleet.errors import ConfigError, WeightsError
from fleet.weights.names import MANIFEST, NOTES, OURS
from fleet.weights.needs import Kept, WeightSet, judge_revisions
from fleet.weights.parts import Upload, stale
from infra.weights.lock import BucketLock
from infra.weights.store import Object, Store
from infra.weights.uploads import Uploads


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """What a region's bucket holds, and what of it may go."""

    region: str
    revisions: tuple[Kept, ...]  # those of ours; a folder without our files is not listed
    uploads: tuple[Upload, ...]  # of our revisions, begun long ago

    @property
    def unneeded(self) -> tuple[Kept, ...]:
        """The revisions that nobody needs."""
        return tuple(kept for kept in self.revisions if not kept.needed_by)


def find_garbage(
    region: str,
    store: Store,
    needed: Mapping[WeightSet, tuple[str, ...]],
    *,
    now_s: float,
    uploads_older_than_s: float,
) -> Garbage:
    """Look for garbage; changes nothing. Raises ConfigError where a deletion would be final."""
    store.check_region()
    if not store.is_versioned():
        raise ConfigError(
            f"{store.place}: the bucket keeps no versions: what is deleted is gone. "
            "Turn versioning on (`aws s3api put-bucket-versioning`). Nothing was deleted."
        )
    objects = {folder: list(store.objects(folder)) for folder in store.folders()}
    ours = {folder: found for folder, found in objects.items() if _is_ours(found)}
    sizes = {folder: sum(one.held.bytes for one in found) for folder, found in ours.items()}
    uploads = [upload for folder in sizes for upload in Uploads(store).open(folder)]
    return Garbage(
        region=region,
        revisions=judge_revisions(sizes, needed),
        uploads=stale(uploads, now_s, uploads_older_than_s),
    )


def delete_garbage(
    store: Store, lock: BucketLock, garbage: Garbage, say: Callable[[str], None]
) -> None:
    """Delete what was found, while nobody fills the region.

    A manifest goes first, so that what is left of a killed deletion is no whole revision; the
    notes go last, so that it is still known as ours.
    """
    with lock.held():
        for upload in garbage.uploads:
            Uploads(store).abort(upload.key, upload.id)
        for kept in garbage.unneeded:
            _delete_revision(store, lock, kept, say)


def _delete_revision(
    store: Store, lock: BucketLock, kept: Kept, say: Callable[[str], None]
) -> None:
    objects = list(store.objects(kept.revision))
    if sum(one.held.bytes for one in objects) != kept.bytes:
        raise WeightsError(
            f"{store.where(store.key(kept.revision))}: was changed since it was listed. "
            "See who writes there, then run it again."
        )
    for one in sorted(objects, key=_order):
        lock.require()
        store.delete(store.key(kept.revision, one.name))
    say(f"{garbage_name(store, kept)}: deleted {len(objects)} objects")


def garbage_name(store: Store, kept: Kept) -> str:
    """Name a revision in a message."""
    return store.where(store.key(kept.revision))


def _is_ours(objects: list[Object]) -> bool:
    return any(one.name in OURS for one in objects)


def _order(one: Object) -> tuple[int, str]:
    first_and_last = {MANIFEST: 0, NOTES: 2}
    return first_and_last.get(one.name, 1), one.name
