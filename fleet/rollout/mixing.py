"""Say how two releases differ for the frontends and the gateway of a region.

Why some of them are kept apart says `fleet.release_set`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.release import Release
from fleet.release_set import SIDE_BY_SIDE, under
from fleet.release_text import Change, changes

# What frontends and gateway read; how long they may end streams is part of it. Frontends serve all
# replicas of a set, so they change once; a new set brings frontends of its own. The gateway serves
# them all.
OF_FRONTENDS = ("dynamo", "router", "frontend", "drain_s")
OF_THE_GATEWAY = ("edge", "drain_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing:
    """How two releases differ, seen by the router and the gateway of a region."""

    changes: tuple[Change, ...]
    apart: tuple[str, ...]  # paths that keep them apart
    region: tuple[str, ...]  # paths that change frontends that serve already, or the gateway

    @property
    def side_by_side(self) -> bool:
        """Say whether one router may send a session to either of them."""
        return not self.apart


def mixing(old: Release, new: Release) -> Mixing:
    """Compare two releases; a release beside itself has no changes."""
    found = tuple(changes(old, new))
    paths = [change.path for change in found]
    apart = tuple(path for path in paths if not under(path, SIDE_BY_SIDE))
    shared = OF_THE_GATEWAY if apart else (*OF_FRONTENDS, *OF_THE_GATEWAY)
    return Mixing(
        changes=found,
        apart=apart,
        region=tuple(path for path in paths if under(path, shared)),
    )
