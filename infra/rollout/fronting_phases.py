"""Do the phases of a step that changes what a region shares, where they are others."""

from __future__ import annotations

from collections.abc import Callable

from fleet.rollout.strategy import Deadlines
from infra.rollout.driver import Result
from infra.rollout.fronting import not_rolled, other_than, unknowing
from infra.rollout.part import Part
from infra.rollout.verdicts import OK, verdict


def drain(_part: Part) -> Result:
    """Leave it to the Deployments: an old pod ends its streams once a new one has its place."""
    return OK


def verify(part: Part) -> Result:
    """Compare what the cluster has with what the release renders to."""
    why = other_than(part.region.cluster.deployments(), part.region.stack.fronting())
    return Result("failed", f"the cluster has not what was applied: {why}") if why else OK


def ready(part: Part, deadlines: Deadlines) -> Result:
    """Wait until all pods are new and available."""
    waited = part.waiter.until(missing(part), deadlines.ready_s)
    return verdict(waited, "after the deadline `ready`")


def registered(part: Part, deadlines: Deadlines) -> Result:
    """Wait until each frontend knows the model: Ready alone is said without any replica."""
    waited = part.waiter.until(missing(part), deadlines.registered_s)
    return verdict(waited, "after the deadline `registered`")


def missing(part: Part) -> Callable[[], str]:
    """Give what says what a region's frontends and gateway lack; what is wanted is read once."""
    cluster, stack = part.region.cluster, part.region.stack
    names = [name for kind, name in stack.fronting() if kind == "Deployment"]
    model = stack.fleet.model.repo

    def found() -> str:
        return not_rolled(cluster.deployments(), names) or unknowing(cluster.frontends(), model)

    return found
