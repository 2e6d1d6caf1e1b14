"""Find replicas whose release an ordinary update would change. Pure.

A release reaches replicas in waves, through a rollout. A fleet file that names
another release would otherwise bring it to all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.errors import RefusedError

_SHOWN = 3


def require_unchanged(
    stack: str,
    deployed: Mapping[str, Any],
    wanted: Mapping[str, str],
    serial: int,
    assigned: Mapping[str, str],
) -> frozenset[str]:
    """Give the replicas that a rollout is turning; raise RefusedError for any others.

    `deployed`: the stack's outputs. `wanted`: replica -> release that would be applied. A rollout
    writes `assigned` with a higher `serial` before it applies it, and may be cut off in between.
    """
    runs: Mapping[str, str] = deployed.get("releases") or {}
    turned = {name for name, id_ in wanted.items() if name in runs and runs[name] != id_}
    owned = turned & set(assigned) if serial > int(deployed.get("serial") or 0) else set()
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
