"""Say what cut-off updates have left in a fleet's stacks. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.errors import FleetError
from infra.provision.ground import FleetStacks
from infra.provision.repair import described, looking
from infra.settings import StackLayer
from infra.stack_process import Track
from infra.state.locks import is_stale


@dataclass(frozen=True, slots=True, kw_only=True)
class StackHealth:
    """What is wrong with one stack, and the command that repairs it."""

    stack: str
    faults: tuple[str, ...] = ()
    fix: str = ""
    deployed: bool = True


def health(
    stacks: FleetStacks, region: str, layers: tuple[StackLayer, ...]
) -> Track[tuple[StackHealth, ...]]:
    """Look at the stacks of a region."""
    found: list[StackHealth] = []
    for layer in layers:
        name = stacks.bare(layer, region).name
        if stacks.store.exists(name) is False:
            found.append(StackHealth(stack=name.stack, deployed=False))
            continue
        found.append((yield from _of_stack(stacks, layer, region)))
    return tuple(found)


def _of_stack(stacks: FleetStacks, layer: StackLayer, region: str) -> Track[StackHealth]:
    bare = stacks.bare(layer, region)
    where = f"k3fleet {{}} {stacks.fleet.path} --layer {layer}" + (
        f" --region {region}" if region else ""
    )
    for lock in stacks.store.locks(bare.name):
        state = "a dead update's lock" if is_stale(lock) else "an update is running"
        fix = where.format("unlock") if is_stale(lock) else "Wait for it, or stop it."
        told = lock.told(stacks.ground.now())
        return StackHealth(stack=bare.stack, faults=(f"{state}: {told}",), fix=fix)
    try:
        open_ones = yield from looking(stacks, stacks.runner(layer, region))
    except FleetError as error:
        return StackHealth(stack=bare.stack, faults=(str(error),))
    faults = tuple(map(described, open_ones))
    if not faults and bare.unclean.exists():
        faults = ("the last update did not end well",)
    fix = f"{where.format('refresh')} --repair" if faults else ""
    return StackHealth(stack=bare.stack, faults=faults, fix=fix)
