"""Say which fleets cannot be rehearsed, before anything is started."""

from __future__ import annotations

from fleet.errors import ConfigError
from fleet.load import Fleet


def require_rehearsable(fleet: Fleet) -> None:
    """Raise ConfigError for what the lab has no stand-in for: better refused than half tried."""
    where, release = fleet.path, fleet.release
    if fleet.spec.backend == "dgd":
        raise ConfigError(
            f"{where}: backend: dgd needs Dynamo's operator, which the lab does not have. "
            "Rehearse a copy with backend: lws: router, gateway and traffic are the same."
        )
    if release.disaggregation is not None:
        raise ConfigError(
            f"{where}: release {release.name} splits prefill and decode, and the lab's mocked "
            "engines do both. Rehearse an aggregated release."
        )
    if release.engine.kind == "custom":
        raise ConfigError(
            f"{where}: release {release.name} has a house engine, which the lab cannot mock. "
            "Rehearse a release of vllm or sglang."
        )
