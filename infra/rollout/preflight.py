"""Look, before a step, whether it may take its replicas away."""

from __future__ import annotations

from fleet.rollout.record import Seen, Started
from infra.rollout import fronting_phases
from infra.rollout.checks import floor_broken, listed, weights_missing
from infra.rollout.driver import Result
from infra.rollout.fronting import seen
from infra.rollout.part import Part, named
from infra.rollout.sharing import strewn
from infra.rollout.verdicts import left_alone, unsure
from infra.rollout.waiting import LOCKED_S


def preflight(part: Part, started: Started) -> Result:
    """Refuse to take capacity away where little is left, or where somebody else works."""
    if wrong := part.region.wrong_cluster():
        return Result("inconclusive", wrong)
    waited = part.waiter.until(part.locked, LOCKED_S)
    if waited.how != "held":
        return unsure(waited)
    if part.forwards and (wrong := strewn(part)):
        return Result("inconclusive", wrong)
    by_hand = part.changed_by_hand(started.old, started.new)
    if by_hand and not part.action.overwrite:
        return Result("inconclusive", left_alone(named(by_hand)))
    whole = fronting_phases.missing(part) if part.shared and part.forwards else str
    waited = part.waiter.until(
        lambda: whole() or _not_enough(part, started), started.deadlines.registered_s
    )
    if waited.how != "held":
        return unsure(waited)
    return Result("ok", named(by_hand), _seen(part) if part.shared else None)


def _seen(part: Part) -> Seen:
    """Count what frontends will have forgotten when their successors are judged."""
    reading = part.region.reading((), part.action.target, part.waiter.clock())
    return seen(reading.frontends.values())


def _not_enough(part: Part, started: Started) -> str:
    if missing := _weights_missing(part):
        return missing
    serving = part.region.serving()
    racks = part.region.racks
    parked = part.region.cluster.parked()
    if waiting := sorted(parked & set(part.replicas)):
        return f"{listed(waiting)} is parked, its rack lacks nodes: k3fleet heal or racks uncordon"
    absent = sorted(set(racks) - serving - set(part.replicas) - parked)
    if part.forwards and absent:
        return f"other replicas do not serve: {listed(absent)}"
    return floor_broken(serving, racks, part.replicas, started.floor)


def _weights_missing(part: Part) -> str:
    """Say where weights are missing; they have to be whole before a replica is taken away."""
    wanted = part.region.stack.weights_labels(part.action.target)
    if not wanted:
        return ""
    cluster = part.region.cluster
    missing = weights_missing(cluster.engines(), cluster.node_labels(), part.replicas, wanted)
    return f"weights of {part.action.target} are not whole: {missing}" if missing else ""
