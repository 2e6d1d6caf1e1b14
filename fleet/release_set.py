"""Say which releases belong together: those of one set may be served by the same frontends.

A router that takes two releases for one model sends a session from the one to the other: its
prefix is then not where the router believes it, or, where blocks are exchanged between
replicas, it is there and wrong. Inside one Dynamo namespace all workers also need the same
model card, or the frontend draws one of two sets by chance and loses its sessions (measured
with Dynamo 1.6.1: 12 to 25 of 48 turns stayed, against 48 of 48 in one set). So each set has a
namespace and frontends of its own; its name is made of the release alone, and nobody has to
remember it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from fleet.release import Release

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
SET_DIGITS = 8


def release_set(release: Release) -> str:
    """Name the set of a release: hex digits over all that keeps releases apart.

    What equals its default is left out, as in a release's id: a new k3fleet renames no set.
    """
    content = release.model_dump(mode="json", exclude_defaults=True)
    canonical = json.dumps(_apart(content, ""), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:SET_DIGITS]


def under(path: str, roots: tuple[str, ...]) -> bool:
    """Tell whether a path in a release is one of some fields, or inside of one."""
    return any(path == root or path.startswith((f"{root}.", f"{root}[")) for root in roots)


def _apart(content: Mapping[str, object], prefix: str) -> dict[str, object]:
    """Leave out what may differ inside a set, and what is empty without it."""
    kept: dict[str, object] = {}
    for key, value in content.items():
        path = f"{prefix}{key}"
        if under(path, SIDE_BY_SIDE):
            continue
        left = _apart(value, f"{path}.") if isinstance(value, Mapping) else value
        if left != {}:
            kept[key] = left
    return kept
