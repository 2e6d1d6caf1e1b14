"""Alerts and dashboard: real metrics, and something to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from dynamo import prometheus_names

from fleet.load import Fleet
from infra.options import Options
from infra.render import KubeObject, render_region

MakeFleet = Callable[..., Fleet]
SMALL = {"use1-r01": 4}
KV = {"router": {"mode": "kv"}}
_INDEX = "pod_label_leaderworkerset_sigs_k8s_io_worker_index"


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


def rack(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "healthy_nodes": 4, **more}


def regions(*racks: dict[str, Any]) -> dict[str, Any]:
    return {"regions": [{"name": "us-east", "racks": list(racks)}]}


END = "2027-01-31T12:30:00+01:00"
ENDING = regions(
    rack("use1-r02", capacity_ends_at=END),
    rack("use1-r01", capacity_ends_at="2027-01-30T00:00:00Z"),
    rack("use1-r03"),
)


def test_the_end_of_a_capacity_block_is_counted_down_to(make_fleet: MakeFleet) -> None:
    """No metric knows it: at the end the rack's nodes are gone, with all that runs on them."""
    found = {rule["alert"]: rule for rule in alerts(rendered(make_fleet(**ENDING)))}
    warned, urgent = found["K3CapacityEnds"], found["K3CapacityEndsNow"]
    ends = re.findall(r'vector\((\d+)\), "rack", "([^"]+)"', warned["expr"])
    assert {name: datetime.fromtimestamp(int(end), UTC) for end, name in ends} == {
        "use1-r01": datetime(2027, 1, 30, tzinfo=UTC),
        "use1-r02": datetime(2027, 1, 31, 11, 30, tzinfo=UTC),
    }
    notice, last_call = (int(rule["expr"].rpartition("< ")[2]) for rule in (warned, urgent))
    # AWS wants UltraServers empty 60 minutes before the end; ending nodes takes 20, the drains of
    # a rack's two replicas 15 each, and waking up half an hour.
    assert (notice, last_call) == (3 * 86_400, (60 + 20 + 2 * 15 + 30) * 60)


def test_moving_a_rack_changes_no_alert(make_fleet: MakeFleet) -> None:
    """Whatever depends on the order in the file shows up as a change nobody made."""
    turned = regions(*reversed(ENDING["regions"][0]["racks"]))
    assert alerts(rendered(make_fleet(**ENDING))) == alerts(rendered(make_fleet(**turned)))


def test_racks_without_an_end_have_no_countdown(make_fleet: MakeFleet) -> None:
    """An alert on an empty set would be an invalid expression."""
    names = {rule["alert"] for rule in alerts(rendered(make_fleet(SMALL)))}
    assert names.isdisjoint({"K3CapacityEnds", "K3CapacityEndsNow"})


@pytest.mark.parametrize(
    ("pod", "scraped"),
    [
        ({"pod_name": "use1-r01-0-0-w-0-w-ldr-x7k2p"}, True),
        ({"pod_name": "use1-r01-0-0-w-0-w-wkr-x7k2p"}, False),
        ({"pod_name": "use1-r01-0-w-0", _INDEX: "0"}, True),
        ({"pod_name": "use1-r01-0-w-0-1", _INDEX: "1"}, False),
        ({"pod_name": "a-w-wkr-1-0-0-w-0-w-ldr-abcde"}, True),  # a rack may be called anything
    ],
)
def test_the_operators_second_rank_is_not_scraped(
    make_fleet: MakeFleet, pod: dict[str, str], scraped: bool
) -> None:
    """vLLM's serves no metrics at all: a target that is down for ever hides one that fails."""
    objects = rendered(make_fleet(SMALL, backend="dgd"))
    monitor = next(
        item["spec"]
        for item in objects
        if (item["kind"], item["metadata"]["name"]) == ("PodMonitor", "engines")
    )
    (endpoint,) = monitor["podMetricsEndpoints"]
    labels = {f"__meta_kubernetes_{name}": value for name, value in pod.items()}
    dropped = any(
        re.fullmatch(rule["regex"], labels.get(rule["sourceLabels"][0], ""))
        for rule in endpoint["relabelings"]
        if rule["action"] == "drop"
    )
    assert dropped is not scraped


def test_every_alert_says_what_to_do(make_fleet: MakeFleet) -> None:
    """Whoever is woken up reads the description first."""
    found = alerts(rendered(make_fleet(**ENDING, **KV)))
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
