"""Third-party operators of a region's platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pulumi_mocks import Monitor, Registration, exported, registrations, run_entry

from fleet.clouds import Cloud
from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from infra.operators import OperatorName, merged, operator_facts, region_charts

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fleets/demo.yaml"
ALL: Mapping[str, Any] = {"gpu_operator": {}, "dra_driver": {}, "workloads": {}}
RELEASE = "kubernetes:helm.sh/v3:Release"

FleetOf = Callable[..., Fleet]


@pytest.fixture
def fleet_of(tmp_path: Path) -> FleetOf:
    """Write the demo fleet with operators, and load it."""

    def load(**changes: Any) -> Fleet:
        data = {**yaml.safe_load(DEMO.read_text()), **changes}
        file = tmp_path / "fleet.yaml"
        file.write_text(yaml.safe_dump(data))
        return load_fleet(file)

    return load


def in_cloud(fleet: Fleet, cloud: Cloud) -> Fleet:
    """Say that the first region is in a cloud; how its cluster is made is not asked here."""
    first, *others = fleet.spec.regions
    regions = (first.model_copy(update={"cloud": cloud}), *others)
    fields = {name: getattr(fleet, name) for name in Fleet.__slots__}
    return Fleet(**{**fields, "spec": fleet.spec.model_copy(update={"regions": regions})})


def declared(fleet: Fleet, tmp_path: Path) -> dict[str, Registration]:
    """Run the platform's entry file as `pulumi up` does."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("")
    config = {"fleet": str(fleet.path), "region": "us-east", "kubeconfig": str(kubeconfig)}
    monitor = Monitor()
    run_entry(monitor, ROOT / "infra/platform", "platform-us-east", config)
    exported()
    return registrations(monitor)


def test_without_a_word_nothing_is_installed(fleet_of: FleetOf, tmp_path: Path) -> None:
    """The lab's clusters, and those of today, stay as they are."""
    fleet = fleet_of()
    assert region_charts(fleet, "us-east") == ()
    assert not any(item.type == RELEASE for item in declared(fleet, tmp_path).values())


def test_a_cluster_that_is_there_already_is_left_alone(fleet_of: FleetOf) -> None:
    """Its owner has operators of his own; `clusters: all` says that he has not."""
    assert region_charts(fleet_of(operators=dict(ALL)), "us-east") == ()
    charts = region_charts(fleet_of(operators={**ALL, "clusters": "all"}), "us-east")
    assert [chart.name for chart in charts] == ["gpu_operator", "dra_driver", "lws"]


@pytest.mark.parametrize(("backend", "operator"), [("lws", "lws"), ("dgd", "dynamo")])
def test_the_workloads_operator_is_that_of_the_backend(
    fleet_of: FleetOf, backend: str, operator: OperatorName
) -> None:
    """Two of them would both be there for nothing, and one of them for trouble."""
    operators = {"clusters": "all", "workloads": {}}
    charts = region_charts(fleet_of(operators=operators, backend=backend), "us-east")
    assert [chart.name for chart in charts] == [operator]


def test_dynamo_comes_without_a_discovery_of_its_own(fleet_of: FleetOf) -> None:
    """A second one splits the region, and its routing; the chart brings NATS unless told not to."""
    operators = {"clusters": "all", "workloads": {}}
    (chart,) = region_charts(fleet_of(operators=operators, backend="dgd"), "us-east")
    parts = chart.values["global"]
    assert parts["nats"] == parts["etcd"] == {"install": False}
    assert parts["grove"] == {"install": True}


def test_on_aws_the_images_driver_is_used(fleet_of: FleetOf) -> None:
    """A second driver on a node takes the GPUs from both."""
    fleet = in_cloud(fleet_of(operators=dict(ALL)), "aws")
    values = {chart.name: chart.values for chart in region_charts(fleet, "us-east")}
    assert values["gpu_operator"] == {
        "migManager": {"enabled": False},
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
    }
    assert values["dra_driver"]["resources"] == {
        "gpus": {"enabled": False},
        "computeDomains": {"enabled": True},
    }


def test_on_coreweave_the_platform_has_them(fleet_of: FleetOf) -> None:
    """It runs them itself; a second one fights it."""
    fleet = in_cloud(fleet_of(operators=dict(ALL)), "coreweave")
    assert [chart.name for chart in region_charts(fleet, "us-east")] == ["lws"]


@pytest.mark.parametrize("cloud", get_args(Cloud))
def test_the_driver_finds_its_nodes_in_every_cloud(fleet_of: FleetOf, cloud: Cloud) -> None:
    """Without the toleration there is no ResourceSlice, and engines wait for ever."""
    fleet = in_cloud(fleet_of(operators={**ALL, "clusters": "all"}), cloud)
    charts = {chart.name: chart for chart in region_charts(fleet, "us-east")}
    if cloud == "coreweave":
        assert "dra_driver" not in charts
        return
    values = charts["dra_driver"].values
    tolerated = [item["key"] for item in values["kubeletPlugin"]["tolerations"]]
    assert tolerated == (
        ["nvidia.com/gpu", "kubernetes.io/arch"] if cloud == "gcp" else ["nvidia.com/gpu"]
    )
    assert values["nvidiaDriverRoot"].startswith("/")
    assert values["resources"]["gpus"] == {"enabled": False}


def test_a_team_may_choose_a_version(fleet_of: FleetOf) -> None:
    """Exact: a range is another chart tomorrow."""
    operators = {"clusters": "all", "workloads": {"version": "0.9.0"}}
    (chart,) = region_charts(fleet_of(operators=operators), "us-east")
    assert chart.version == "0.9.0"
    with pytest.raises(ConfigError, match=r"operators\.workloads\.version: '\^0\.9' is no exact"):
        fleet_of(operators={"workloads": {"version": "^0.9"}})


def test_every_chart_is_pinned() -> None:
    """What is installed must not depend on the day."""
    for facts in operator_facts().values():
        assert facts.version.removeprefix("v").count(".") == 2
        assert facts.chart.startswith("oci://") == (facts.repository is None)


def test_domains_wait_for_their_driver(fleet_of: FleetOf, tmp_path: Path) -> None:
    """The cluster does not know the kind before; nothing else waits."""
    found = declared(fleet_of(operators={**ALL, "clusters": "all"}), tmp_path)
    releases = {item.name: item for item in found.values() if item.type == RELEASE}
    assert set(releases) == {f"operator/{name}" for name in ("gpu_operator", "dra_driver", "lws")}
    waiting = {item.name for item in found.values() if "operator/dra_driver" in item.needs}
    assert waiting == {"ComputeDomain/k3/use1-r01"}
    assert "operator/gpu_operator" in releases["operator/dra_driver"].needs


def test_an_operator_is_not_lost_by_mistake(fleet_of: FleetOf, tmp_path: Path) -> None:
    """Its objects would hang in their finalizers, and replicas lose NVLink."""
    found = declared(fleet_of(operators={**ALL, "clusters": "all"}), tmp_path)
    for item in found.values():
        if item.type == RELEASE:
            assert (item.protect, item.retain) == (True, True)
            assert item.provider == "kubernetes"
            assert item.inputs["atomic"] is True
            assert item.inputs["skipAwait"] is False


def test_values_are_laid_over_each_other() -> None:
    """As Helm does: mappings are merged, lists are replaced."""
    base = {"a": {"b": 1, "c": [1]}, "d": 2}
    assert merged(base, {"a": {"c": [2]}, "e": 3}) == {"a": {"b": 1, "c": [2]}, "d": 2, "e": 3}
    assert base == {"a": {"b": 1, "c": [1]}, "d": 2}
