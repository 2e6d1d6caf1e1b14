"""Tell which pods a label selector selects, as far as a manifest shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from infra.lint.pods import PodTemplate, Role, Workload

# Labels that controllers add to pods; their values are only known in the cluster.
_ADDED = ("nvidia.com/", "grove.io/", "leaderworkerset.sigs.k8s.io/", "pod-template-hash", "apps.")
INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
SET_NAME = "leaderworkerset.sigs.k8s.io/name"


class Rank(NamedTuple):
    """One kind of pod of a workload: rank 0, or the others; with the labels that it will carry."""

    template: PodTemplate
    is_leader: bool
    labels: Mapping[str, str]


def ranks(workload: Workload) -> Iterator[Rank]:
    """Yield the kinds of pods that one copy of a workload is made of."""
    for template in workload.templates:
        for is_leader in _leaders(template.role, workload.is_group):
            yield Rank(template, is_leader, {**template.labels, **_own(workload, is_leader)})


def selects(selector: object, labels: Mapping[str, str]) -> bool | None:
    """Say whether a selector takes a pod with these labels; None: cannot be known.

    `selector` is a plain mapping (of a Service) or has `matchLabels` and
    `matchExpressions`. Nothing, or an empty one, gives None.
    """
    wanted, expressions = _parts(selector)
    if not wanted and not expressions:
        return None
    answers = [_equal(labels, str(key), str(value)) for key, value in wanted.items()]
    answers += [_expressed(labels, item) for item in expressions]
    if False in answers:
        return False
    return None if None in answers else True


def _leaders(role: Role, is_group: bool) -> tuple[bool, ...]:
    if not is_group or role == "leader":
        return (True,)
    return (False,) if role == "worker" else (True, False)


def _own(workload: Workload, is_leader: bool) -> Mapping[str, str]:
    """Give what a controller adds and we can foresee."""
    if workload.manifest.kind != "LeaderWorkerSet":
        return {}
    index = {INDEX: "0"} if is_leader else {INDEX: "1"}
    return {SET_NAME: workload.manifest.name, **index}


def _parts(selector: object) -> tuple[Mapping[str, Any], list[Any]]:
    if not isinstance(selector, dict):
        return {}, []
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return selector, []
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    return (
        labels if isinstance(labels, dict) else {},
        expressions if isinstance(expressions, list) else [],
    )


def _equal(labels: Mapping[str, str], key: str, value: str) -> bool | None:
    if key in labels:
        return labels[key] == value
    return None if key.startswith(_ADDED) else False


def _expressed(labels: Mapping[str, str], item: object) -> bool | None:
    if not isinstance(item, dict):
        return None
    key, operator, values = str(item.get("key")), item.get("operator"), item.get("values")
    if key not in labels and key.startswith(_ADDED):
        return None
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) is bool(operator == "Exists")
    if not isinstance(values, list):
        return None
    within: bool = labels.get(key) in [str(value) for value in values]
    return within is bool(operator == "In")
