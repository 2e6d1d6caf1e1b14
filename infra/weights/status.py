"""Say what is in each region's bucket, without reading any of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.weights.manifest import MAX_BYTES, read_manifest
from fleet.weights.names import MANIFEST, OURS
from fleet.weights.needs import WeightSet
from infra.weights.store import Store
from infra.weights.uploads import Uploads

State = Literal["complete", "damaged", "partial", "absent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionStatus:
    """One revision in one place."""

    place: str  # a region's name, or `source`
    weights: WeightSet
    state: State
    needed_by: tuple[str, ...]
    files: int
    total_files: int | None  # None: nobody has made the manifest
    bytes: int
    total_bytes: int | None
    open_uploads: int
    open_bytes: int
    digest: str  # of its manifest


def revision_status(
    name: str, store: Store, weights: WeightSet, pinned: str | None, needed_by: tuple[str, ...]
) -> RevisionStatus:
    """Look at one revision in one place: names, sizes and its manifest."""
    held = {one.name: one.held for one in store.objects(weights.revision) if one.name not in OURS}
    uploads = Uploads(store).open(weights.revision)
    kept = store.small(store.key(weights.revision, MANIFEST), MAX_BYTES)
    manifest = read_manifest(kept.content, name, weights, pinned)[0] if kept else None
    sizes = {one.name: one.bytes for one in manifest.files} if manifest else {}
    right = {file: one for file, one in held.items() if sizes.get(file, one.bytes) == one.bytes}
    if manifest is not None and right.keys() >= sizes.keys():
        state: State = "complete"
    elif kept is not None:
        state = "damaged"
    else:
        state = "partial" if held or uploads else "absent"
    return RevisionStatus(
        place=name,
        weights=weights,
        state=state,
        needed_by=needed_by,
        files=len(right),
        total_files=len(sizes) if manifest else None,
        bytes=sum(one.bytes for one in right.values()),
        total_bytes=manifest.total_bytes if manifest else None,
        open_uploads=len(uploads),
        open_bytes=sum(upload.bytes for upload in uploads),
        digest=manifest.digest if manifest else "",
    )
