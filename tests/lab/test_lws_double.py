"""The LeaderWorkerSet double makes a group, and makes it anew when a pod of it is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lab_builders import pod
from lab_fakes import FakeApi, FakeStore
from lightkube.resources.apps_v1 import StatefulSet

from lab.lws_double import LwsDouble
from lab.lws_templates import REVISION_LABEL, digest
from lab.pods import PodView

TEMPLATE: dict[str, Any] = {
    "size": 2,
    "workerTemplate": {"spec": {"containers": [{"name": "main"}]}},
}
LWS: dict[str, Any] = {
    "metadata": {"name": "r01-0", "namespace": "k3", "uid": "lws", "generation": 1},
    "spec": {"replicas": 1, "leaderWorkerTemplate": TEMPLATE},
}
REVISION = {REVISION_LABEL: digest(TEMPLATE)}
LEADER = pod("r01-0-0", uid="leader", labels=REVISION)
WORKER = pod("r01-0-0-1", uid="worker", labels=REVISION, owner_uid="uid-of-r01-0-0")


class Group:
    """A double, the API server it talks to, and the pods that exist."""

    def __init__(self) -> None:
        self.api, self.store = FakeApi(), FakeStore()
        self.double = LwsDouble(self.api, "k3", self.store)  # type: ignore[arg-type]

    def reconcile(self, *pods: PodView) -> bool:
        self.store.pods = {each.name: each for each in pods}
        return self.double.reconcile(LWS)

    @property
    def condition(self) -> dict[str, str]:
        return {c["type"]: c["status"] for c in self.api.statuses[-1][1]["conditions"]}


@pytest.fixture
def group() -> Group:
    """Return a group whose both pods run."""
    found = Group()
    found.reconcile(LEADER)
    assert found.reconcile(LEADER, WORKER)
    return found


def test_the_worker_set_is_made_when_the_leader_exists():
    """Workers get the leader's address, and are owned by its pod."""
    group = Group()
    group.reconcile()
    assert ("StatefulSet", "r01-0") in group.api.objects
    assert ("StatefulSet", "r01-0-0") not in group.api.objects
    group.reconcile(LEADER)
    workers = group.api.get(StatefulSet, "r01-0-0")
    assert workers.metadata.ownerReferences[0].uid == "leader"


def test_a_whole_group_is_available(group: Group):
    """What watches the set has to see it."""
    assert group.condition == {
        "Available": "True",
        "Progressing": "False",
        "UpdateInProgress": "False",
    }


@pytest.mark.parametrize(
    "pods",
    [
        (replace(LEADER, restarts=1), WORKER),
        (LEADER, replace(WORKER, restarts=1)),
        (LEADER, replace(WORKER, deleting=True)),
        (LEADER, replace(WORKER, uid="another")),
    ],
    ids=["leader restarted", "worker restarted", "worker deleted", "worker replaced"],
)
def test_a_lost_pod_takes_the_whole_group(group: Group, pods: tuple[PodView, ...]):
    """Half a tensor-parallel group cannot go on, so the leader goes, and its workers with it."""
    assert not group.reconcile(*pods)
    assert group.api.deleted == ["r01-0-0"]


def test_pods_of_the_group_before_do_not_break_the_new_one(group: Group):
    """The old worker dies slowly; taking it for ours would recreate the group for ever."""
    new_leader = replace(LEADER, uid="leader-2")
    assert not group.reconcile(new_leader, replace(WORKER, deleting=True))
    assert group.api.deleted == []


def test_a_changed_template_is_in_progress_until_the_pods_run_it(group: Group):
    """`updatedReplicas` must not count a pod of the old revision."""
    changed = {**TEMPLATE, "workerTemplate": {"spec": {"containers": [{"name": "other"}]}}}
    lws = {**LWS, "spec": {"replicas": 1, "leaderWorkerTemplate": changed}}
    assert not group.double.reconcile(lws)
    assert group.condition["UpdateInProgress"] == "True"
