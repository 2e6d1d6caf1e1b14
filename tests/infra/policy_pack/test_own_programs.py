"""What k3fleet itself declares keeps its own policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi_kubernetes
import pytest
from policy_engine import Engine, Violation, declared
from provider_fleets import AWS_COMPUTED, aws_region, write_fleet
from pulumi_mocks import Monitor, run_entry, run_in

from fleet.load import Fleet
from infra.options import Layer
from infra.program import declare
from infra.render import render_region

INFRA = Path(__file__).parents[3] / "infra"
GLOBAL = {
    "account": "123456789012",
    "region": "us-west-2",
    "weights": {
        "bucket": "k3-weights",
        "copies": [{"region": "us-east-1", "bucket": "k3-weights-use1"}],
    },
    "dns": {
        "zone_id": "Z012",
        "name": "k3.example.com",
        "gateways": [{"region": "us-east", "address": "gw.example.net", "aws_region": "us-east-1"}],
    },
    "registry": {
        "regions": ["us-east-1"],
        "pull_through": [{"prefix": "k8s", "upstream": "registry.k8s.io"}],
    },
}
KEYS = {
    "aws:kms/key:Key": {"arn": "arn:aws:kms:us-west-2:123456789012:key/mrk-1"},
    "aws:kms/replicaKey:ReplicaKey": {"arn": "arn:aws:kms:us-east-1:123456789012:key/mrk-1"},
}


def judged(engine: Engine, monitor: Monitor) -> list[Violation]:
    items = declared(monitor.requests)
    assert items
    found = [violation for item in items for violation in engine.one(item)]
    return [*found, *engine.stack(items)]


def test_the_global_stack_keeps_them(engine: Engine, tmp_path: Path) -> None:
    """Buckets, keys, tags and providers."""
    monitor = Monitor(computed=KEYS)
    file = write_fleet(tmp_path, aws_region(), **{"global": GLOBAL})
    run_entry(monitor, INFRA / "global", "global", {"fleet": str(file)})
    assert judged(engine, monitor) == []


def test_a_cluster_on_aws_keeps_them(engine: Engine, tmp_path: Path) -> None:
    """Racks, networks, keys and what must not die."""
    monitor = Monitor(computed=AWS_COMPUTED)
    file = write_fleet(tmp_path, aws_region())
    config = {"fleet": str(file), "region": "us-east"}
    run_entry(monitor, INFRA / "cluster", "cluster-us-east", config)
    assert judged(engine, monitor) == []


@pytest.mark.parametrize("layer", ["platform", "serving"])
def test_a_regions_layers_keep_them(engine: Engine, demo: Fleet, layer: Layer) -> None:
    """Each object alone, as before it is made, and all of a stack together."""
    monitor = declare_layer(demo, layer)
    assert judged(engine, monitor) == []


def declare_layer(fleet: Fleet, layer: Layer) -> Monitor:
    monitor = Monitor()

    def program() -> None:
        provider = pulumi_kubernetes.Provider("kubernetes", kubeconfig="/k")
        declare(render_region(fleet, "us-east", layer), provider)

    run_in(monitor, program)
    return monitor


def serving(fleet: Fleet, kind: str) -> list[dict[str, Any]]:
    items = declared(declare_layer(fleet, "serving").requests)
    assert any(kind in item["type"] for item in items)
    return items


def test_a_replica_that_may_straddle_racks_is_stopped(engine: Engine, demo: Fleet) -> None:
    """Its tensor parallelism would leave NVLink; the rule is the linter's."""
    item = next(
        found for found in serving(demo, "LeaderWorkerSet") if "LeaderWorkerSet" in found["type"]
    )
    template = item["props"]["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        template[part]["spec"].pop("nodeSelector")
    stopped = [found for found in engine.one(item) if found.policy == "kubernetes-objects"]
    assert any("K023" in found.message for found in stopped)
    assert {found.level for found in stopped} == {"mandatory"}


def test_a_replica_with_its_ranks_in_two_racks_is_stopped(engine: Engine, demo: Fleet) -> None:
    """Each rank is bound, and to another rack."""
    item = next(
        found for found in serving(demo, "LeaderWorkerSet") if "LeaderWorkerSet" in found["type"]
    )
    template = item["props"]["spec"]["leaderWorkerTemplate"]
    template["workerTemplate"]["spec"]["nodeSelector"]["k3fleet.io/rack"] = "use1-r02"
    stopped = [found.message for found in engine.one(item) if found.level == "mandatory"]
    assert any("K002" in message for message in stopped)


def test_objects_that_do_not_go_together_are_stopped(engine: Engine, demo: Fleet) -> None:
    """Ten replicas on a rack that holds nine: no object shows it alone."""
    items = serving(demo, "LeaderWorkerSet")
    extra = next(found for found in items if "LeaderWorkerSet" in found["type"])
    props = {**extra["props"], "metadata": {**extra["props"]["metadata"], "name": "use1-r01-9"}}
    more = [*items, {**extra, "name": "LeaderWorkerSet/k3/use1-r01-9", "props": props}]
    assert [found for found in engine.one(more[-1]) if found.policy == "kubernetes-objects"] == []
    found = [item for item in engine.stack(more) if item.policy == "kubernetes-stack"]
    assert any("K005" in item.message for item in found)


def test_the_fleets_waivers_count(engine: Engine, demo: Fleet, tmp_path: Path) -> None:
    """What the linter was told once need not be told again."""
    item = {
        "type": "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
        "name": "own",
        "props": next(
            found["props"]
            for found in serving(demo, "LeaderWorkerSet")
            if "LeaderWorkerSet" in found["type"]
        ),
        "provider": {"package": "kubernetes", "name": "kubernetes", "props": {}},
    }
    for part in ("leaderTemplate", "workerTemplate"):
        item["props"]["spec"]["leaderWorkerTemplate"][part]["spec"].pop("nodeSelector")
    waivers = [
        {"rule": rule, "reason": "one rack", "expires": "2999-01-01"} for rule in ("K022", "K023")
    ]
    file = write_fleet(tmp_path, aws_region(), lint={"waivers": waivers})
    engine.configure({"kubernetes-objects": {"fleet": str(file)}})
    rules = [found.message for found in engine.one(item) if found.policy == "kubernetes-objects"]
    assert not any("K022" in message or "K023" in message for message in rules)


def test_a_fleet_file_that_is_not_there_is_told(engine: Engine) -> None:
    """A pack that judges nothing because of a wrong path would be silent."""
    engine.configure({"kubernetes-objects": {"fleet": "/nowhere/fleet.yaml"}})
    item = {"type": "kubernetes:core/v1:ConfigMap", "props": {"metadata": {"name": "x"}}}
    messages = [item.message for item in engine.one(item) if item.policy == "kubernetes-objects"]
    assert any("/nowhere/fleet.yaml" in message for message in messages)


@pytest.mark.parametrize("layer", ["platform", "serving"])
def test_what_a_server_adds_is_no_fault(engine: Engine, demo: Fleet, layer: Layer) -> None:
    """At the end of an update the engine sends objects as the API server holds them."""
    items = declared(declare_layer(demo, layer).requests)
    server = {
        "uid": "6f1c0c6e-0000-4000-8000-000000000000",
        "resourceVersion": "42",
        "generation": 1,
        "creationTimestamp": "2026-11-30T12:00:00Z",
        "managedFields": [{"manager": "pulumi-kubernetes", "operation": "Apply"}],
    }
    live = [
        {
            **item,
            "props": {
                **item["props"],
                "metadata": {**item["props"]["metadata"], **server},
                "status": {"observedGeneration": 1},
            },
        }
        for item in items
    ]
    assert engine.stack(live) == []
