"""The load generator of a region: off by default, behind the gateway, and startable."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fleet.load import Fleet
from infra.options import Layer, Options
from infra.render import KubeObject, render_region
from loadtest.cache.release_rules import release_rules
from loadtest.settings import LoadSettings

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
LOADTEST = {"image": "registry.example/k3fleet@sha256:" + "0" * 64, "tokenizer_dir": "/opt/kimi"}


def rendered(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    layers: tuple[Layer, ...] = ("platform", "serving")
    return [item for layer in layers for item in render_region(fleet, "us-east", layer, options)]


def named(objects: list[KubeObject], kind: str, name: str) -> KubeObject:
    found = [x for x in objects if x["kind"] == kind and x["metadata"]["name"].startswith(name)]
    (item,) = found
    return item


def pod(objects: list[KubeObject], name: str) -> dict[str, Any]:
    spec: dict[str, Any] = named(objects, "Deployment", name)["spec"]["template"]["spec"]
    return spec


def settings(objects: list[KubeObject]) -> LoadSettings:
    config = named(objects, "ConfigMap", "loadtest-")
    return LoadSettings.model_validate_json(config["data"]["settings.json"])


@pytest.mark.parametrize(
    ("changes", "options"), [({}, Options()), ({"loadtest": LOADTEST}, Options(bare=True))]
)
def test_nothing_sends_load_unless_it_is_asked_for(
    make_fleet: MakeFleet, changes: dict[str, Any], options: Options
) -> None:
    """A generator that somebody forgot takes the place of clients."""
    assert "loadtest" not in json.dumps(rendered(make_fleet(SMALL, **changes), options))


def test_the_settings_are_those_of_the_region(make_fleet: MakeFleet) -> None:
    """Real lengths against the region's own gateway, in blocks of its release."""
    fleet = make_fleet(SMALL, loadtest=LOADTEST, gateway={"port": 8443})
    found = settings(rendered(fleet))
    assert found.targets == {"us-east": "http://gateway.k3.svc.cluster.local:8443"}
    assert (found.model, found.block_size) == (fleet.model.repo, fleet.release.block_size)
    assert (found.token_scale, found.time_scale) == (1.0, 1.0)
    assert found.users == 4  # two for each of the two replicas
    assert found.max_context == fleet.model.context_tokens


def test_the_oracle_and_the_cross_check_know_the_region(make_fleet: MakeFleet) -> None:
    """Real engines resume at kept states; every frontend behind the headless Service counts."""
    fleet = make_fleet(SMALL, loadtest=LOADTEST)
    objects = rendered(fleet)
    found = settings(objects)
    assert found.oracle == release_rules(fleet.model, fleet.hardware, fleet.release)
    assert found.oracle.reuse == "snapshots"
    (page,) = found.results.metrics["us-east"]
    service = next(
        item
        for item in objects
        if (item["kind"], item["metadata"]["name"]) == ("Service", "frontend")
    )
    (port,) = service["spec"]["ports"]
    assert page == f"dns+http://frontend.k3.svc.cluster.local:{port['port']}/metrics"
    assert service["spec"]["clusterIP"] == "None"


def test_changed_settings_restart_the_processes(make_fleet: MakeFleet) -> None:
    """Locust reads them once; a ConfigMap that changed in place would go unnoticed."""

    def mounted(**changes: Any) -> set[str]:
        objects = rendered(make_fleet(SMALL, loadtest={**LOADTEST, **changes}))
        return {
            pod(objects, f"loadtest-{role}")["volumes"][0]["configMap"]["name"]
            for role in ("master", "worker")
        }

    (before,), (after,) = mounted(), mounted(users=100)
    assert before != after


def test_the_page_answers_its_own_pod_only(make_fleet: MakeFleet) -> None:
    """It has no password; `kubectl port-forward` connects from inside the pod."""
    objects = rendered(make_fleet(SMALL, loadtest=LOADTEST))
    (container,) = pod(objects, "loadtest-master")["containers"]
    args = container["args"]
    assert args[args.index("--web-host") + 1] == "127.0.0.1"
    assert [port["name"] for port in container["ports"]] == ["locust"]
    service = named(objects, "Service", "loadtest-master")["spec"]
    assert [port["targetPort"] for port in service["ports"]] == ["locust"]


def test_workers_find_their_master(make_fleet: MakeFleet) -> None:
    """Name and port stand in three objects."""
    objects = rendered(make_fleet(SMALL, loadtest=LOADTEST))
    args = pod(objects, "loadtest-worker")["containers"][0]["args"]
    service = named(objects, "Service", args[args.index("--master-host") + 1])
    asked = int(args[args.index("--master-port") + 1])
    assert [port["port"] for port in service["spec"]["ports"]] == [asked]
    (container,) = pod(objects, "loadtest-master")["containers"]
    assert container["ports"][0]["containerPort"] == asked
    assert container["args"][container["args"].index("--master-bind-port") + 1] == str(asked)
    labels = named(objects, "Deployment", "loadtest-master")["spec"]["template"]["metadata"]
    assert service["spec"]["selector"].items() <= labels["labels"].items()


def reached(policy: KubeObject, direction: str, peers: str) -> list[tuple[str, list[int]]]:
    found = []
    for rule in policy["spec"].get(direction, []):
        ports = sorted({port["port"] for port in rule["ports"]})
        for peer in rule.get(peers, [None]):
            labels = peer["podSelector"]["matchLabels"] if peer else {}
            found.append((labels.get("app.kubernetes.io/name", "anybody"), ports))
    return found


@pytest.mark.parametrize("backend", ["lws", "dgd"])
def test_load_reaches_the_gateway_and_nothing_else(make_fleet: MakeFleet, backend: str) -> None:
    """A worker that asks an engine would measure what no client can have."""
    objects = rendered(make_fleet(SMALL, backend=backend, loadtest=LOADTEST))
    worker = named(objects, "NetworkPolicy", "loadtest-worker")
    master = named(objects, "NetworkPolicy", "loadtest-master")
    assert worker["spec"]["policyTypes"] == master["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert reached(worker, "egress", "to") == [
        ("gateway", [8080]),
        ("loadtest-master", [5557]),
        ("anybody", [53]),  # names
    ]
    assert reached(worker, "ingress", "from") == []
    assert reached(master, "ingress", "from") == [("loadtest-worker", [5557])]
    assert reached(master, "egress", "to") == [("frontend", [8000]), ("anybody", [53])]
    counters = named(objects, "NetworkPolicy", "frontend-counters")
    assert reached(counters, "ingress", "from") == [("loadtest-master", [8000])]


@pytest.mark.parametrize("role", ["master", "worker"])
def test_load_pods_run_restricted_beside_what_serves(make_fleet: MakeFleet, role: str) -> None:
    """They take no GPU node, no priority and no right away from anybody."""
    fleet = make_fleet(SMALL, loadtest=LOADTEST, secrets={"image_pull": "registry"})
    objects = rendered(fleet)
    spec = pod(objects, f"loadtest-{role}")
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "priorityClassName" not in spec
    assert "tolerations" not in spec
    assert container["resources"]["requests"]["cpu"] == "1"
    account = named(objects, "ServiceAccount", spec["serviceAccountName"])
    assert account["imagePullSecrets"] == [{"name": "registry"}]


def test_results_outlive_their_pods_in_a_claim(make_fleet: MakeFleet) -> None:
    """Regions and workers have folders of their own in it."""
    fleet = make_fleet(SMALL, loadtest={**LOADTEST, "results_claim": "load-results"})
    objects = rendered(fleet)
    (volume,) = (v for v in pod(objects, "loadtest-worker")["volumes"] if v["name"] == "results")
    assert volume["persistentVolumeClaim"] == {"claimName": "load-results"}
    assert str(settings(objects).out_dir) == "/results/us-east"
