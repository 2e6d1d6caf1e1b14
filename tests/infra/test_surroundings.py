"""What a region has beside what serves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fleet.load import Fleet
from infra.options import Layer, Options
from infra.render import KubeObject, render_region

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
STAGED = {"weights_stage": {"image": "registry.example/hf@sha256:" + "0" * 64}}
SECRETS = {"image_pull": "registry", "hf_token": "hub", "external_store": "vault"}


def rendered(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    layers: tuple[Layer, ...] = ("platform", "serving")
    return [item for layer in layers for item in render_region(fleet, "us-east", layer, options)]


def of_kind(objects: list[KubeObject], kind: str) -> dict[str, KubeObject]:
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


def peers(policy: KubeObject) -> list[tuple[str, object]]:
    """List who may connect and to which port; None stands for everybody and every port."""
    found = []
    for rule in policy["spec"].get("ingress", []):
        port = rule["ports"][0]["port"] if "ports" in rule else None
        for source in rule.get("from", [None]):
            if source is None:
                found.append(("everybody", port))
            elif "podSelector" in source:
                labels = source["podSelector"]["matchLabels"]
                found.append((labels["app.kubernetes.io/name"], port))
            else:
                labels = source["namespaceSelector"]["matchLabels"]
                found.append((f"namespace {labels['kubernetes.io/metadata.name']}", port))
    return found


def test_only_the_way_of_a_request_is_open(make_fleet: MakeFleet) -> None:
    """Engines answer whoever reaches them, and count no quota."""
    policies = of_kind(
        rendered(make_fleet(SMALL), Options(monitoring_namespace="watch")), "NetworkPolicy"
    )
    assert policies["default-deny"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    assert {name: peers(policy) for name, policy in policies.items()} == {
        "default-deny": [],
        "gateway": [("everybody", 8080)],
        "frontend": [
            ("gateway", 8000),
            ("engine", None),
            ("frontend", None),
            ("namespace watch", 8000),
        ],
        "engine": [("frontend", None), ("engine", None), ("namespace watch", 9090)],
    }


def test_every_policy_selects_pods_that_exist(make_fleet: MakeFleet) -> None:
    """A policy for a label that no pod carries protects nothing."""
    objects = rendered(make_fleet(SMALL))
    text = [json.dumps(item) for item in objects if item["kind"] != "NetworkPolicy"]
    for name, policy in of_kind(objects, "NetworkPolicy").items():
        for key, value in policy["spec"]["podSelector"].get("matchLabels", {}).items():
            assert any(f'"{key}": "{value}"' in item for item in text), name


def test_secrets_are_named_and_never_written(make_fleet: MakeFleet) -> None:
    """Rendered files lie in build artefacts and in Pulumi's state."""
    objects = rendered(make_fleet(SMALL, **STAGED, secrets=SECRETS))
    assert of_kind(objects, "Secret") == {}
    assert set(of_kind(objects, "ExternalSecret")) == {"registry", "hub"}
    for account in of_kind(objects, "ServiceAccount").values():
        assert account["imagePullSecrets"] == [{"name": "registry"}]


def test_only_the_weights_stage_gets_the_hubs_token(make_fleet: MakeFleet) -> None:
    """Engines are offline, so a token there could only leak."""
    objects = rendered(make_fleet(SMALL, **STAGED, secrets=SECRETS))
    holders = [
        item["kind"] for item in objects if "secretKeyRef" in json.dumps(item.get("spec", {}))
    ]
    assert holders == ["DaemonSet"]
    assert "hub" not in of_kind(rendered(make_fleet(SMALL, secrets=SECRETS)), "ExternalSecret")


def frontends(objects: list[KubeObject]) -> dict[str, Any]:
    """Give the Deployment of the only set's frontends."""
    [found] = [
        item["spec"]
        for name, item in of_kind(objects, "Deployment").items()
        if name.startswith("frontend-")
    ]
    return dict(found)


def test_only_one_decides_how_many_frontends_there_are(make_fleet: MakeFleet) -> None:
    """Two owners of one number set it back and forth, and each time streams end (K016)."""
    fleet = make_fleet(SMALL, frontends={"replicas": 3})
    scaled = rendered(fleet)
    [scaler] = [item["spec"] for item in of_kind(scaled, "HorizontalPodAutoscaler").values()]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 12)
    assert "replicas" not in frontends(scaled)
    bare = rendered(fleet, Options(bare=True))
    assert of_kind(bare, "HorizontalPodAutoscaler") == {}
    assert frontends(bare)["replicas"] == 3


def test_frontends_leave_no_faster_than_they_drain(make_fleet: MakeFleet) -> None:
    """Each takes its sessions along; the grace period lets its streams end."""
    fleet = make_fleet(SMALL)
    objects = rendered(fleet)
    [scaler] = of_kind(objects, "HorizontalPodAutoscaler").values()
    down = scaler["spec"]["behavior"]["scaleDown"]
    assert down["policies"] == [
        {"type": "Pods", "value": 1, "periodSeconds": round(fleet.release.drain_s)}
    ]
    pod = frontends(objects)["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= fleet.release.drain_s


@pytest.mark.parametrize(
    ("scheduling", "scheduler", "labels", "annotations"),
    [
        pytest.param({}, None, {}, {}, id="default"),
        pytest.param(
            {"gang": "kai", "queue": "serving"},
            "kai-scheduler",
            {"kai.scheduler/queue": "serving"},
            {},
            id="kai",
        ),
        pytest.param(
            {"gang": "volcano", "queue": "serving"},
            "volcano",
            {},
            {"scheduling.volcano.sh/queue-name": "serving"},
            id="volcano",
        ),
        pytest.param(
            {"kueue_queue": "batch"}, None, {"kueue.x-k8s.io/queue-name": "batch"}, {}, id="kueue"
        ),
    ],
)
def test_other_schedulers_find_what_they_read(
    make_fleet: MakeFleet,
    scheduling: dict[str, str],
    scheduler: str | None,
    labels: dict[str, str],
    annotations: dict[str, Any],
) -> None:
    """Each looks for its queue in another place."""
    item = of_kind(rendered(make_fleet(SMALL, scheduling=scheduling)), "LeaderWorkerSet")[
        "use1-r01-0"
    ]
    theirs = {
        name: value
        for name, value in item["metadata"]["labels"].items()
        if name.startswith(("kai.", "kueue."))
    }
    assert theirs == labels
    assert item["metadata"].get("annotations", {}) == annotations
    templates = item["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        assert templates[part]["spec"].get("schedulerName") == scheduler


def test_bare_is_what_serves_and_nothing_else(make_fleet: MakeFleet) -> None:
    """A cluster without other people's controllers accepts every object."""
    fleet = make_fleet(
        SMALL, **STAGED, secrets=SECRETS, scheduling={"gang": "kai", "queue": "serving"}
    )
    objects = rendered(fleet, Options(bare=True))
    kinds = {item["kind"] for item in objects}
    assert kinds.isdisjoint(
        {
            "NetworkPolicy",
            "ExternalSecret",
            "ValidatingAdmissionPolicy",
            "HorizontalPodAutoscaler",
            "DaemonSet",
            "PodMonitor",
        }
    )
    text = json.dumps(objects)
    assert "imagePullSecrets" not in text
    assert "schedulerName" not in text
