"""Bring a stack's state in line with what is there, after an update that was cut off."""

from __future__ import annotations

from fleet.errors import FleetError, RefusedError
from infra.provision.checks import require_account, require_cluster
from infra.provision.ground import IN_CLUSTER, FleetStacks
from infra.provision.pending import Closing, closings, read_pending, repair_words
from infra.provision.request import Done, StackResult
from infra.settings import StackLayer
from infra.stack_process import Track
from infra.stacks import How, StackRunner, UpResult


def looking(stacks: FleetStacks, runner: StackRunner) -> Track[tuple[Closing, ...]]:
    """Find a stack's open operations, and look in the cluster what became of each."""
    pending = read_pending((yield from runner.exporting()))
    if not pending:
        return ()
    if runner.layer not in IN_CLUSTER:
        return closings(pending, lambda _item: False)
    look = stacks.look(runner.settings.region)
    return closings(pending, look.has)


def repairing(stacks: FleetStacks, runner: StackRunner) -> Track[UpResult]:
    """Close a stack's open operations and read everything again."""
    decided = yield from looking(stacks, runner)
    for one in decided:
        runner.say(f"{runner.stack}: {described(one)}")
    if unknown := [one for one in decided if one.verdict == "unknown"]:
        raise RefusedError(f"{runner.stack}: {described(unknown[0])}.")
    return (yield from runner.performing("refresh", How(words=repair_words(decided))))


def refreshing(
    stacks: FleetStacks, region: str, layers: tuple[StackLayer, ...], *, repair: bool
) -> Track[Done]:
    """Read a region's stacks again from what is there; open operations only when asked."""
    results: list[StackResult] = []
    try:
        for layer in layers:
            if stacks.store.exists(stacks.bare(layer, region).name) is False:
                continue
            runner = stacks.runner(layer, region)
            yield from runner.preparing()
            require_account(stacks, region)
            # An API server that is away would look like one that has nothing.
            require_cluster(stacks, runner, (yield from runner.remembering()))
            decided = yield from looking(stacks, runner)
            if decided and not repair:
                listed = "; ".join(map(described, decided))
                raise RefusedError(
                    f"{runner.stack}: {len(decided)} open operations: {listed}. "
                    "Give --repair to close them so."
                )
            ended = yield from repairing(stacks, runner)
            results.append(StackResult.of(layer, ended))
    except FleetError as error:
        stack = stacks.bare(layer, region).stack
        results.append(StackResult(stack=stack, layer=layer, status="failed", why=str(error)))
        return Done(region=region, stacks=tuple(results), error=error)
    return Done(region=region, stacks=tuple(results))


def described(one: Closing) -> str:
    """Say what an open operation is, and how it is closed."""
    how = {"take in": "taken in", "drop": "dropped", "refresh": "", "unknown": "left"}[one.verdict]
    return f"{one.pending.operation} {one.pending.label}: {how or 'closed'}, {one.why}"
