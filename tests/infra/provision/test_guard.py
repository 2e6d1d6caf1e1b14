"""Which changes of a plan are refused."""

from __future__ import annotations

import pytest

from infra.provision.guard import Allowed, Guard
from infra.stack_events import Touched

EKS = "aws:eks/cluster:Cluster"
ECS = "aws:ecs/cluster:Cluster"
PROTECTED = frozenset({"Namespace", EKS})


def touched(operation: str, name: str, *, token: str = "", **more: object) -> Touched:
    token = token or f"kubernetes:v1:{name.partition('/')[0]}"
    kind = token.rpartition(":")[2]
    return Touched(
        operation=operation, kind=kind, name=name, type=token, urn=f"urn::{token}::{name}", **more
    )


def refused(item: Touched, **allowed: str) -> list[str]:
    names = {taking: frozenset({name}) for taking, name in allowed.items()}
    guard = Guard(allowed=Allowed(**names), protected_kinds=PROTECTED)
    return [f"{one.taking} {one.item.name}" for one in guard.findings("s", [item])]


@pytest.mark.parametrize(
    "operation", ["create", "update", "read", "discard", "import", "read-replacement"]
)
def test_what_takes_nothing_away_may_pass(operation: str) -> None:
    """Most updates are of this kind."""
    assert refused(touched(operation, "Service/k3/a")) == []


def test_the_steps_of_one_replacement_are_one_finding() -> None:
    """The engine says create, replace and delete of the same object."""
    steps = ("create-replacement", "replace", "delete-replaced")
    items = [touched(operation, "Service/k3/a") for operation in steps]
    assert len(Guard().findings("s", items)) == 1


def test_a_clouds_kind_is_protected_by_its_whole_type() -> None:
    """`Cluster` is the name of harmless things as well."""
    assert refused(touched("delete", "us", token=EKS), delete="u*") == ["delete us"]
    assert refused(touched("delete", "us", token=EKS), delete="us") == []
    assert refused(touched("delete", "us", token=ECS), delete="u*") == []


def test_what_the_state_protects_is_protected() -> None:
    """Somebody may have done it by hand, for a reason."""
    item = touched("delete", "Service/k3/a", protected=True)
    assert refused(item, delete="Service/k3/*") == ["delete Service/k3/a"]


def test_permission_for_one_thing_is_none_for_another() -> None:
    """Who allows a restart has not allowed a deletion."""
    assert refused(touched("delete", "Service/k3/a"), replace="Service/k3/a") != []


@pytest.mark.parametrize(
    ("name", "paths", "restarts"),
    [
        ("LeaderWorkerSet/k3/a", ("spec.leaderWorkerTemplate.size",), True),
        ("LeaderWorkerSet/k3/a", ("metadata.labels.x", "spec.replicas"), False),
        ("DynamoGraphDeployment/k3/a", ("spec.components[0].image",), True),
        ("Deployment/k3/gateway", ("spec.template.spec",), False),
    ],
)
def test_a_change_of_a_replicas_pods_is_a_restart(
    name: str, paths: tuple[str, ...], *, restarts: bool
) -> None:
    """A Deployment rolls by itself, with pods to spare; a rack has none to spare."""
    assert bool(refused(touched("update", name, changed=paths))) == restarts


def test_a_rollouts_own_replicas_may_restart() -> None:
    """It has drained them first."""
    item = touched("update", "LeaderWorkerSet/k3/a", changed=("spec.leaderWorkerTemplate.x",))
    assert Guard(owned=frozenset({"a"})).findings("s", [item]) == ()


def test_a_refusal_says_what_forces_it_and_how_it_is_allowed() -> None:
    """The reader decides with this one line."""
    item = touched("replace", "Service/k3/a", forced_by=("spec.clusterIP",))
    [finding] = Guard().findings("s", [item])
    assert str(finding) == (
        "replace Service/k3/a, because of spec.clusterIP. "
        "To allow it: --allow-replace Service/k3/a."
    )
