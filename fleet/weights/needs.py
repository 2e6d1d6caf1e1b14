"""Say which weights releases need, and which nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.model import Model
from fleet.release import Release


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class WeightSet:
    """One revision of one repository."""

    repo: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A revision in a bucket: who needs it, and so whether it may go."""

    revision: str
    bytes: int
    needed_by: tuple[str, ...]


def weight_sets(model: Model, release: Release) -> tuple[WeightSet, ...]:
    """Name what a release loads: its weights, and its draft's."""
    own = WeightSet(repo=model.repo, revision=release.weights.revision)
    if release.speculation is None:
        return (own,)
    draft = WeightSet(repo=release.speculation.draft, revision=release.speculation.revision)
    return (own, draft)


def needed_by(model: Model, releases: Mapping[str, Release]) -> Mapping[WeightSet, tuple[str, ...]]:
    """Say which releases need each revision; `releases`: by whatever names them in a message."""
    needed: dict[WeightSet, list[str]] = {}
    for name, release in releases.items():
        for weights in weight_sets(model, release):
            needed.setdefault(weights, []).append(name)
    return {weights: tuple(names) for weights, names in sorted(needed.items())}


def judge_revisions(
    found: Mapping[str, int], needed: Mapping[WeightSet, Iterable[str]]
) -> tuple[Kept, ...]:
    """Say of each revision in a bucket (with its bytes) who needs it."""
    by_revision: dict[str, list[str]] = {}
    for weights, names in needed.items():
        by_revision.setdefault(weights.revision, []).extend(names)
    return tuple(
        Kept(revision=revision, bytes=size, needed_by=tuple(by_revision.get(revision, ())))
        for revision, size in sorted(found.items())
    )
