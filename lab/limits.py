"""Say which fleets cannot be rehearsed, before anything is started."""

from __future__ import annotations

from fleet.errors import ConfigError
from fleet.load import Fleet
from lab.house_engine import require_runnable


def require_rehearsable(fleet: Fleet, path: str) -> None:
    """Raise ConfigError for what the lab cannot run: better refused than half tried.

    `path` is where programs are looked for.
    """
    if fleet.spec.backend == "dgd":
        raise ConfigError(
            f"{fleet.path}: backend: dgd needs Dynamo's operator, which the lab does not have. "
            "Rehearse a copy with backend: lws: router, gateway and traffic are the same."
        )
    if fleet.release.engine.custom is not None:
        require_runnable(fleet, path)
