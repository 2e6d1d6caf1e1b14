"""Write down what a step's replicas shall run, let Pulumi do it, and look whether it did."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.rollout.record import Started
from infra.rollout.checks import SetsTurn, differs, listed, touches_others
from infra.rollout.driver import Result
from infra.rollout.fronting import touches_more
from infra.rollout.part import Part, named
from infra.rollout.verdicts import OK, left_alone, unsure
from infra.rollout.waiting import LOCKED_S
from infra.stack_events import Touched


def assign(part: Part, started: Started) -> Result:
    """Write down what the step's replicas, or what their region shares, shall be."""
    serial = part.action.serials.get(part.region.cluster.region, 0)
    written = dict.fromkeys(part.replicas, part.action.target)
    stack = part.region.stack
    shared = part.action.target if part.shared else stack.to_tell(started.old)
    stack.assign(written, serial=serial, shared=shared)
    return OK


def apply(part: Part, started: Started) -> Result:
    """Let Pulumi do what is assigned, after a look at what it would do."""
    waited = part.waiter.until(part.locked, LOCKED_S)
    if waited.how != "held":
        return unsure(waited)
    by_hand = part.changed_by_hand(started.old, started.new)
    if by_hand and not part.action.overwrite:
        return Result("inconclusive", left_alone(named(by_hand)))
    stack, refresh, force = part.region.stack, part.action.refresh, part.action.overwrite
    with part.away():
        # A state that may be wrong, or a fight over fields, is for the engine to judge.
        only = None if refresh or force or part.shared else stack.own_targets(part.replicas)
        preview = None if only else stack.preview(refresh=refresh, force=force)
    if preview and (others := _more(part, preview.touched, started)):
        return Result(
            "inconclusive",
            f"the update would also do this: {others}. Nothing was applied. See who changed "
            "these objects, undo it or apply it by hand, then resume",
        )
    part.hold()
    with part.away():
        stack.up(refresh=refresh, force=force, only=only or ())
    own = named({n: why for n, why in by_hand.items() if part.shared or n in part.replicas})
    return Result("ok", f"put back: {own}" if own else "")


def _more(part: Part, touched: Iterable[Touched], started: Started) -> str:
    """Say what an update would do beside what its step is about."""
    if not part.shared:
        others = part.region.stack.sets(part.replicas)
        turn = SetsTurn.of(others, part.target_set, part.sets)
        return touches_others(touched, part.replicas, turn)
    both = (started.old, started.new)
    return touches_more(touched, {key for id_ in both for key in part.region.stack.fronting(id_)})


def verify(part: Part) -> Result:
    """Compare what the cluster has with what the release renders to."""
    live, rendered = part.region.cluster.workloads(), part.region.stack.rendered()
    wrong = []
    for name in part.replicas:
        if name not in live:
            wrong.append(f"{name} is not there")
        elif why := differs(live[name], rendered[name]):
            wrong.append(f"{name}: {why}")
    if wrong:
        return Result("failed", f"the cluster has not what was applied: {listed(wrong)}")
    return OK
