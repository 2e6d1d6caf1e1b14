"""Find what a teardown leaves where it is. Pure: a state and a plan come in.

The engine keeps what is protected, and with it whatever that stands on; what is
retained it only forgets. Both cost money afterwards, or stand in the way.
"""

from __future__ import annotations

from collections.abc import Iterable

from infra.provision.request import Stay
from infra.stack_events import Touched
from infra.stack_state import StackState, StateResource


def staying(state: StackState, touched: Iterable[Touched]) -> tuple[Stay, ...]:
    """List what is still there after a plan that deletes what it touches."""
    gone = {item.urn for item in touched if item.operation == "delete"}
    return tuple(
        stay for item in state.resources if item.is_ours and (stay := _stay(item, item.urn in gone))
    )


def _stay(item: StateResource, deleted: bool) -> Stay | None:
    if deleted:
        return Stay(name=item.name, urn=item.urn, why="retained") if item.retained else None
    return Stay(name=item.name, urn=item.urn, why="protected" if item.protect else "needed")
