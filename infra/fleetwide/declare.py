"""Declare what `global` of the fleet file asks for, and say what stacks of regions may read."""

from __future__ import annotations

from typing import Any

from fleet.global_spec import GlobalSpec
from infra.fleetwide.dns import declare_dns
from infra.fleetwide.home import Home
from infra.fleetwide.registry import declare_registry
from infra.fleetwide.weights import declare_weights


def declare(fleet: str, spec: GlobalSpec) -> dict[str, Any]:
    """Declare everything; give the fields of `infra.outputs.GlobalOutputs`."""
    home = Home(fleet=fleet, spec=spec)
    outputs: dict[str, Any] = {"fleet": fleet}
    if spec.weights:
        outputs |= declare_weights(home, spec.weights)
    if spec.dns:
        outputs["endpoint"] = declare_dns(home, spec.dns)
    if spec.registry:
        outputs["registries"] = declare_registry(home, spec.registry)
    return outputs
