"""Pods, whatever the object that makes them."""

from __future__ import annotations

from typing import Any

import pytest

from infra.lint.manifest import Manifest
from infra.lint.pods import Workload, workloads


def made(kind: str, spec: object, api_version: str = "v1") -> list[Workload]:
    data = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return list(workloads(Manifest(file="x.yaml", data=data)))


TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": "a"}]}}


def test_leader_and_worker_of_a_set_are_two_templates():
    """They may differ, and often by mistake."""
    templates = {"size": 2, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}
    (found,) = made("LeaderWorkerSet", {"replicas": 9, "leaderWorkerTemplate": templates})
    assert (found.nodes, found.replicas) == (2, 9)
    assert [item.role for item in found.templates] == ["leader", "worker"]


def test_a_set_without_a_leader_template_has_one_for_all():
    """LeaderWorkerSet then makes rank 0 of the worker's template."""
    templates = {"size": 2, "workerTemplate": TEMPLATE}
    (found,) = made("LeaderWorkerSet", {"leaderWorkerTemplate": templates})
    assert [item.role for item in found.templates] == ["each"]


def test_each_component_of_a_graph_is_a_workload():
    """A graph holds frontends and engines side by side."""
    components = [
        {"name": "Frontend", "type": "frontend", "podTemplate": TEMPLATE},
        {"name": "W", "type": "worker", "multinode": {"nodeCount": 4}, "podTemplate": TEMPLATE},
    ]
    found = made("DynamoGraphDeployment", {"components": components}, "nvidia.com/v1beta1")
    assert [(item.name, item.component_type, item.nodes) for item in found] == [
        ("Frontend", "frontend", 1),
        ("W", "worker", 4),
    ]


def test_multinode_without_a_count_is_two_nodes():
    """The operator's default."""
    components = [{"name": "W", "multinode": {}, "podTemplate": TEMPLATE}]
    (found,) = made("DynamoGraphDeployment", {"components": components})
    assert found.nodes == 2


@pytest.mark.parametrize("kind", ["Deployment", "Job", "CronJob", "LeaderWorkerSet", "Pod"])
@pytest.mark.parametrize("spec", [None, [], "text", {"template": 3}, {"leaderWorkerTemplate": []}])
def test_objects_of_a_wrong_shape_have_no_pods(kind: str, spec: object):
    """The schema rule says what is wrong; no other rule may fall over it."""
    assert all(not item.templates or kind == "Pod" for item in made(kind, spec))
