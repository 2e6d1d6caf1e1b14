"""Be the Pulumi program of what all regions of a fleet share.

The bucket and the key of Pulumi's own state are not among it, though AWS could
import them: a stack that manages the bucket in which its state is kept deletes
itself with it, and so would a `destroy`. `k3fleet bootstrap` makes them, and
nothing here refers to them; weights have a key of their own, which nodes may
use and which opens no secret of the state.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pulumi

from fleet.errors import ConfigError, FleetError, ToolError
from fleet.load import Fleet, load_fleet
from infra.settings import fleet_file


def run() -> None:
    """Be the whole program; a user's mistake ends it without a traceback."""
    try:
        fleet = load_fleet(fleet_file(pulumi.Config()))
        declare = _declaring(fleet)
    except FleetError as error:
        raise pulumi.RunError(str(error)) from error
    for name, value in declare(fleet.spec.name, fleet.spec.global_spec).items():
        pulumi.export(name, value)


def _declaring(fleet: Fleet) -> Any:
    """Give the function that declares it all; raise where there is nothing, or no SDK."""
    if fleet.spec.global_spec is None:
        raise ConfigError(
            f"{fleet.path}: global: not set, so there is nothing for this stack. "
            "Add `global` (docs/global.md), or leave this layer out."
        )
    try:
        return import_module("infra.fleetwide.declare").declare
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pulumi_aws":
            raise
        raise ToolError(
            "global: the Python package pulumi_aws is missing. Run `pip install 'k3fleet[aws]'`."
        ) from error
