"""Alerts and dashboard: real metrics, and something to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dynamo import prometheus_names

from fleet.load import Fleet
from infra.options import Options
from infra.render import KubeObject, render_region

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
KV = {"router": {"mode": "kv"}}


def rendered(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    return render_region(fleet, "us-east", "serving", options)


def alerts(objects: list[KubeObject]) -> list[dict[str, Any]]:
    rules = [item for item in objects if item["kind"] == "PrometheusRule"]
    return [rule for item in rules for group in item["spec"]["groups"] for rule in group["rules"]]


def dashboard(objects: list[KubeObject]) -> dict[str, Any]:
    config = next(
        item for item in objects if "grafana_dashboard" in item["metadata"].get("labels", {})
    )
    loaded: dict[str, Any] = json.loads(config["data"]["k3fleet.json"])
    return loaded


def names_in_the_wheel() -> Iterator[str]:
    for family, prefix in (
        (prometheus_names.frontend_service, prometheus_names.name_prefix.FRONTEND),
        (prometheus_names.router, prometheus_names.name_prefix.COMPONENT),
    ):
        yield from (
            f"{prefix}_{value}"
            for name, value in vars(family).items()
            if name.isupper() and isinstance(value, str)
        )


def test_every_metric_of_dynamo_exists(make_fleet: MakeFleet) -> None:
    """An alert on a misspelt metric never fires, and nobody notices."""
    objects = rendered(make_fleet(SMALL, **KV))
    text = json.dumps([alerts(objects), dashboard(objects)])
    used = set(re.findall(r"\bdynamo_[a-z_]+", text))
    known = set(names_in_the_wheel())
    series = {f"{name}{suffix}" for name in known for suffix in ("", "_bucket", "_sum", "_count")}
    assert len(used) > 10
    assert used <= series


def test_a_router_that_ignores_caches_has_no_cache_alerts(make_fleet: MakeFleet) -> None:
    """Its metrics do not exist then, and zero overlap is no fault."""
    text = json.dumps(alerts(rendered(make_fleet(SMALL, router={"mode": "round-robin"}))))
    assert "dynamo_component_router" not in text


def test_leaders_are_told_from_other_pods(make_fleet: MakeFleet) -> None:
    """Ready workers and frontends would count as replicas that did not register."""
    rule = next(
        rule
        for rule in alerts(rendered(make_fleet(SMALL, **KV)))
        if rule["alert"] == "K3ReplicaNotRegistered"
    )
    pattern = re.search(r'pod=~"([^"]+)"', rule["expr"])
    assert pattern
    for leader in ("use1-r01-1-0", "added-later-r02-8-0"):  # a new rack changes no rule
        assert re.fullmatch(pattern[1], leader)
    for other in ("use1-r01-1-0-1", "frontend-6d4cf56db6-x7k2p", "gateway-5b9c7f-0abcd"):
        assert not re.fullmatch(pattern[1], other)


def test_every_alert_says_what_to_do(make_fleet: MakeFleet) -> None:
    """Whoever is woken up reads the description first."""
    found = alerts(rendered(make_fleet(SMALL, **KV)))
    assert found
    for rule in found:
        assert rule["annotations"]["summary"]
        assert len(rule["annotations"]["description"].split(". ")) >= 2, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_scraped_ports_exist(make_fleet: MakeFleet) -> None:
    """A monitor of a port that no pod names scrapes nothing, without an error."""
    objects = rendered(make_fleet(SMALL))
    ports: dict[str, set[str]] = {}
    for item in objects:
        if item["kind"] == "Deployment":
            template = item["spec"]["template"]
        elif item["kind"] == "LeaderWorkerSet":
            template = item["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
        else:
            continue
        app = template["metadata"]["labels"]["app.kubernetes.io/name"]
        named = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        ports.setdefault(app, set()).update(named)
    monitors = [item["spec"] for item in objects if item["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    for spec in monitors:
        app = spec["selector"]["matchLabels"]["app.kubernetes.io/name"]
        assert spec["podMetricsEndpoints"][0]["port"] in ports[app]


@pytest.mark.parametrize(
    ("changes", "options"), [({"monitoring": "none"}, Options()), ({}, Options(bare=True))]
)
def test_without_the_operator_its_kinds_are_left_out(
    make_fleet: MakeFleet, changes: dict[str, Any], options: Options
) -> None:
    """A cluster that lacks the kinds refuses the whole deployment."""
    kinds = {item["kind"] for item in rendered(make_fleet(SMALL, **changes), options)}
    assert kinds.isdisjoint({"PodMonitor", "PrometheusRule"})
