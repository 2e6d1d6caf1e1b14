"""Find replicas whose release an ordinary update would change. Pure.

A release reaches replicas in waves, through a rollout. A fleet file that names
another release would otherwise bring it to all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.errors import RefusedError
from infra.outputs import Remembered

_SHOWN = 3


def require_unchanged(
    stack: str,
    deployed: Remembered,
    wanted: Mapping[str, str],
    serial: int,
    assigned: Mapping[str, str],
) -> frozenset[str]:
    """Give the replicas that a rollout is turning; raise RefusedError for any others.

    `deployed`: what the stack's last update left. `wanted`: replica -> release that would be
    applied. A rollout writes `assigned` with a higher `serial` before it applies it, and may be
    cut off in between.
    """
    runs = deployed.releases
    turned = {name for name, id_ in wanted.items() if name in runs and runs[name] != id_}
    owned = turned & set(assigned) if serial > deployed.serial else set()
    others = sorted(turned - owned)
    if not others:
        return frozenset(owned)
    old, new = runs[others[0]], wanted[others[0]]
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    raise RefusedError(
        f"{stack}: {', '.join(others[:_SHOWN])}{more} would change from release {old} to {new}, "
        "all at once. Bring a release out in waves: k3fleet rollout start FLEET RELEASE. If a "
        "rollout was driven from another working copy, take it over: k3fleet rollout sync FLEET."
    )
