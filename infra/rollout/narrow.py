"""Find out without the engine what an update of a stack would touch.

A look by the engine loads the program and the provider once more, which is half of a step's time.
But what it would change follows from the state: an object whose inputs are those that the program
gives is left alone. Where that says that a step touches its own objects only, the update is held
to them (`--target`), so the engine cannot touch another one even if we were wrong. In all other
cases the engine is asked first, and what it says counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from infra.declared import inputs_of, logical_name, type_token
from infra.render import KubeObject
from infra.rollout.checks import touches_others
from infra.stack_events import Touched
from infra.stack_state import StackState, StateResource

PROVIDER = "pulumi:providers:kubernetes"


def own_targets(
    state: StackState, objects: Iterable[KubeObject], step: Collection[str]
) -> tuple[str, ...] | None:
    """Give the URNs that an update has to touch, when all are the step's; else None.

    The provider is among them: another working copy has its kubeconfig at another path. What is
    updated is never replaced: the fields that ask for it (type, namespace and name; provider
    kubernetes 4.x, for custom resources) are all in the URN.
    """
    remembered = {item.name: item for item in state.resources if item.is_ours}
    settled = all(item.is_settled for item in state.resources)
    twice = len(remembered) != sum(item.is_ours for item in state.resources)
    if state.pending or twice or not settled:
        return None  # an update was cut off, or something waits for its deletion or successor
    told = {logical_name(item): item for item in objects}
    touched = {
        name: operation
        for name in remembered.keys() | told.keys()
        if (operation := _operation(remembered.get(name), told.get(name)))
    }
    if "delete" in touched.values() or touches_others(_touched(touched), step):
        # The state says that Deployments depend on every ConfigMap there was, and the engine lets
        # go of none while it may not touch those (measured with Pulumi 3.274).
        return None
    prefix = _prefix(state)
    providers = [item.urn for item in state.resources if item.type == PROVIDER]
    if prefix is None or not providers:
        return None
    urns = [
        remembered[name].urn if name in remembered else f"{prefix}{type_token(told[name])}::{name}"
        for name in sorted(touched)
    ]
    return (*providers, *urns)


def _operation(before: StateResource | None, item: KubeObject | None) -> str:
    """Say what an update does with an object; empty where it leaves it alone."""
    if before is None:
        return "create"
    if item is None:
        return "delete"
    if before.type != type_token(item):
        return "replace"
    return "" if before.inputs == _without_nulls(inputs_of(item)) else "update"


def _touched(operations: Mapping[str, str]) -> list[Touched]:
    return [
        Touched(operation=operation, kind=name.partition("/")[0], name=name)
        for name, operation in sorted(operations.items())
    ]


def _prefix(state: StackState) -> str | None:
    """Give what all URNs of a stack begin with: `urn:pulumi:STACK::PROJECT::`."""
    for item in state.resources:
        if item.type == "pulumi:pulumi:Stack":
            return item.urn[: -len(f"{item.type}::{item.name}")]
    return None


def _without_nulls(value: object) -> object:
    """Give a value as Pulumi keeps it."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
