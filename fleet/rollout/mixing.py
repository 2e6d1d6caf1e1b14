"""Decide whether two releases may serve side by side in one router's namespace.

A router that takes two releases for one model sends a session from the one to the other: its
prefix is then not where the router believes it, or, where blocks are exchanged between
replicas, it is there and wrong. Inside one Dynamo namespace all workers also need the same
model card, or the frontend draws one of two sets by chance and loses its sessions (measured
with Dynamo 1.6.1: 12 to 25 of 48 turns stayed, against 48 of 48 in one set).
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.release import Release
from fleet.release_text import Change, changes

# What neither changes the bytes of a cached block nor the model card, by its path in a
# release. Everything else keeps releases apart, so that a new field is safe before it is known.
SIDE_BY_SIDE = (
    "name",
    "engine.image",  # the same engine version, built again; another version is a field of its own
    "dynamo.image",
    "max_num_seqs",
    "max_batched_tokens",
    "gpu_memory_utilization",
    "drain_s",
    "router",
    "edge",
    "frontend.tokenizer_cache_bytes",
    "speculation",  # drafts are checked by the model: answers and its cache stay the same
)
# What frontends and gateway read; they serve all replicas of a region, so they change once.
OF_THE_REGION = ("dynamo", "router", "frontend", "edge", "drain_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing:
    """How two releases differ, seen by the router and the gateway of a region."""

    changes: tuple[Change, ...]
    apart: tuple[str, ...]  # paths that keep them apart
    region: tuple[str, ...]  # paths that change frontends or gateway

    @property
    def side_by_side(self) -> bool:
        """Say whether one router may send a session to either of them."""
        return not self.apart


def mixing(old: Release, new: Release) -> Mixing:
    """Compare two releases; a release beside itself has no changes."""
    found = tuple(changes(old, new))
    paths = [change.path for change in found]
    return Mixing(
        changes=found,
        apart=tuple(path for path in paths if not _under(path, SIDE_BY_SIDE)),
        region=tuple(path for path in paths if _under(path, OF_THE_REGION)),
    )


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith((f"{root}.", f"{root}[")) for root in roots)
