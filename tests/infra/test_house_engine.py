"""An engine of the house, described in its release, instead of vLLM or SGLang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from fleet.errors import ConfigError
from fleet.load import Fleet
from fleet.release import Release, release_id
from infra.options import Options
from infra.render import KubeObject, render_region

MakeFleet = Callable[..., Fleet]

IMAGE = "registry.example/house/engine:1.4.0@sha256:" + "a" * 64
COMMAND = ["house-serve", "--weights", "{weights}", "--listen", "{host}:{port}", "--rank", "{rank}"]


def house(**custom: Any) -> dict[str, Any]:
    described = {"command": COMMAND, "registers": "nothing", "port": 9100, **custom}
    return {
        "name": "house",
        "engine": {"kind": "custom", "image": IMAGE, "version": "1.4.0", "custom": described},
        "dynamo": {"version": "1.6.1", "image": "dynamo:1.6.1"},
        "weights": {"revision": "abc"},
        "parallelism": {"tensor": 8},
        "block_size": 64,
        "max_num_seqs": 64,
        "max_batched_tokens": 8192,
        "gpu_memory_utilization": 0.9,
    }


@pytest.fixture(scope="module")
def release_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    def write(**custom: Any) -> str:
        path = tmp_path_factory.mktemp("release") / "house.yaml"
        path.write_text(yaml.safe_dump(house(**custom)), encoding="utf-8")
        return str(path)

    return write


def serving(fleet: Fleet, options: Options | None = None) -> list[KubeObject]:
    return render_region(fleet, "us-east", "serving", options or Options(bare=True))


def leader(objects: list[KubeObject]) -> dict[str, Any]:
    engine = next(item for item in objects if item["kind"] == "LeaderWorkerSet")
    pod: dict[str, Any] = engine["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


def test_its_racks_are_watched_and_its_metrics_are_not(
    make_fleet: MakeFleet, release_file: Callable[..., str]
) -> None:
    """We do not know what it measures; NVLink and the end of a block are the racks' own."""
    ending = {"id": "use1-r01", "capacity_ends_at": "2027-01-31T11:30:00Z"}
    fleet = make_fleet(release=release_file(), regions=[{"name": "us-east", "racks": [ending]}])
    objects = serving(fleet, Options())
    kinds = [item["kind"] for item in objects]
    assert "PodMonitor" not in kinds
    (rules,) = (item for item in objects if item["kind"] == "PrometheusRule")
    assert [rule["alert"] for rule in rules["spec"]["groups"][0]["rules"]] == [
        "K3NvlinkImpaired",
        "K3CapacityEnds",
        "K3CapacityEndsNow",
    ]
    assert "dynamo_" not in str(rules)


def test_its_command_is_its_own(make_fleet: MakeFleet, release_file: Callable[..., str]) -> None:
    """The image of a house engine knows nothing of our arguments."""
    container = leader(serving(make_fleet(release=release_file())))
    words = [*container["command"], *container.get("args", [])]
    assert words[0] == "house-serve"
    assert words[words.index("--listen") + 1] == "$(POD_IP):9100"
    assert words[words.index("--rank") + 1] == "$(LWS_WORKER_INDEX)"


def test_it_is_asked_straight_when_no_frontend_can_find_it(
    make_fleet: MakeFleet, release_file: Callable[..., str]
) -> None:
    """Frontends only know Dynamo workers: they would answer 404 for ever."""
    objects = serving(make_fleet(release=release_file()))
    assert not [item for item in objects if item["metadata"]["name"].startswith("frontend")]
    envoy = next(item for item in objects if item["kind"] == "ConfigMap")["data"]["envoy.yaml"]
    [cluster] = yaml.safe_load(envoy)["static_resources"]["clusters"]
    [group] = cluster["load_assignment"]["endpoints"]
    address = group["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
    assert address == {"address": "engines.k3.svc.cluster.local", "port_value": 9100}


def test_its_health_is_asked_where_it_says(
    make_fleet: MakeFleet, release_file: Callable[..., str]
) -> None:
    """A probe on Dynamo's port would never answer."""
    fleet = make_fleet(release=release_file(health_path="/ready", health_port=9200))
    container = leader(serving(fleet))
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 9100, "system": 9200}
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/ready", "port": "system"}


def test_one_that_registers_has_frontends(
    make_fleet: MakeFleet, release_file: Callable[..., str]
) -> None:
    """It is then rolled out like vLLM, and mixed with it in one region."""
    objects = serving(make_fleet(release=release_file(registers="dynamo")))
    assert [item["kind"] for item in objects if item["metadata"]["name"] == "frontend"]


def test_two_ways_in_are_refused(
    make_fleet: MakeFleet, demo: Fleet, release_file: Callable[..., str]
) -> None:
    """Half of the region would get no request, and nobody would see why."""
    other = Release.model_validate(house())
    options = Options(
        bare=True, releases={release_id(other): other}, assignment={"use1-r01-0": release_id(other)}
    )
    with pytest.raises(ConfigError, match=r"one way in\. Use releases of one kind"):
        serving(demo, options)


def test_an_unknown_word_in_the_command_is_refused(
    make_fleet: MakeFleet, release_file: Callable[..., str]
) -> None:
    """It would reach the engine as braces."""
    with pytest.raises(ConfigError, match=r"\{wieghts\} is not known\. Use one of context_tokens"):
        make_fleet(release=release_file(command=["serve", "{wieghts}"]))
