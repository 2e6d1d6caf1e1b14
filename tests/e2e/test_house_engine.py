"""An engine of the house is rolled out in the lab by its own command, on both of its nodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_runs import Here
from house_fleet import double, write_house_fleet
from lab_region import Object, Region, address, named
from patience import wait_until

from fleet.engine import CustomEngine
from verify.smoke import serves

pytestmark = pytest.mark.lab

SESSION = "x-dynamo-session-id"
LOOK_EVERY_S = 1.0  # a look is a process, or a chat


@pytest.fixture(scope="module")
def region(shared: Here) -> Iterator[Region]:
    """Bring up two replicas of our double, which only speaks the OpenAI API."""
    fleet = write_house_fleet(shared.folder, double())
    ended = shared.run("lab", "up", str(fleet), "-o", "json")
    assert ended.code == 0, ended.err
    yield Region(shared, json.loads(ended.out))
    assert shared.run("lab", "down", str(fleet)).code == 0


def leader_of(pod: Object) -> str:
    """Name the leader of a pod's replica."""
    return f"{pod['metadata']['labels']['k3fleet.io/replica']}-0"


def who_answers(region: Region, session: str) -> str:
    """Ask as a session, and read which pod answered."""
    asked = {"model": region.fleet.model.repo, "messages": [{"role": "user", "content": " def"}]}
    reply = httpx2.post(
        f"{region.gateway_url}/v1/chat/completions",
        json={**asked, "max_tokens": 6},
        headers={SESSION: session},
        trust_env=False,
    )
    reply.raise_for_status()
    told = reply.json()
    assert told["choices"][0]["message"]["content"] == "This answer is a double's."
    word, pod = told["system_fingerprint"].split()
    assert word == "double"
    return str(pod)


def test_both_nodes_run_the_command_of_the_release(region: Region) -> None:
    """Each word of the template, with what the lab has in its place."""
    custom = region.fleet.release.engine.custom
    assert isinstance(custom, CustomEngine)
    pods = region.pods("engine")
    places = {pod["metadata"]["name"]: address(pod) for pod in pods}
    assert sorted(places) == ["r01-0-0", "r01-0-0-1", "r01-1-0", "r01-1-0-1"]
    for pod in pods:
        name = pod["metadata"]["name"]
        words = {
            "model": region.fleet.model.repo,
            "weights": str(region.here.work_dir / "model"),
            "host": places[name],
            "port": custom.port,
            "leader": places[leader_of(pod)],
            "rank": 0 if name == leader_of(pod) else 1,
            "nodes": 2,
        }
        wanted = [word.format_map(words) for word in custom.command]
        running = region.process(pod).cmdline()
        assert running[1:] == [*wanted[1:], *region.fleet.release.args]


def test_there_is_no_frontend(region: Region) -> None:
    """Frontends only know Dynamo workers."""
    assert region.pods("frontend") == []
    assert not [o for o in region.rendered if o["metadata"]["name"].startswith("frontend")]


def test_the_gateway_reads_the_rendered_file(region: Region) -> None:
    """In it the engines' Service, at the engine's port."""
    [pod] = region.pods("gateway")
    pod_spec = named(region.rendered, "Deployment", "gateway")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod_spec["volumes"]}
    config = named(region.rendered, "ConfigMap", volumes["config"]["configMap"]["name"])
    text = config["data"]["envoy.yaml"]
    argv = region.process(pod).cmdline()
    assert Path(argv[argv.index("-c") + 1]).read_bytes() == text.encode()
    assert "engines.k3.svc.cluster.local" in text


def test_a_session_stays_on_one_replica_and_sessions_spread(region: Region) -> None:
    """The gateway's ring is all the cache routing that such an engine gets."""
    answered = {
        f"s{number}": {who_answers(region, f"s{number}") for _ in range(3)} for number in range(40)
    }
    assert all(len(pods) == 1 for pods in answered.values())
    spread = Counter(pod for pods in answered.values() for pod in pods)
    assert spread.keys() == {"r01-0-0", "r01-1-0"}


def test_losing_the_second_node_makes_the_replica_anew(region: Region) -> None:
    """Half a replica is none; the other replica serves meanwhile."""
    model = region.fleet.model.repo
    before = {pod["metadata"]["name"]: pod for pod in region.pods("engine")}
    kept = region.process(before["r01-1-0"])
    region.process(before["r01-0-0-1"]).kill()

    def made_anew() -> bool:
        now = {pod["metadata"]["name"]: pod for pod in region.pods("engine")}
        return now.keys() == before.keys() and all(
            now[name]["metadata"]["uid"] != before[name]["metadata"]["uid"] and ready(now[name])
            for name in ("r01-0-0", "r01-0-0-1")
        )

    wait_until(made_anew, "the pods of the replica are not new and Ready", pause_s=LOOK_EVERY_S)
    wait_until(
        lambda: serves(region.gateway_url, model),
        "the gateway does not answer",
        pause_s=LOOK_EVERY_S,
    )
    assert kept.is_running()


def ready(pod: Object) -> bool:
    """Tell whether a pod is Ready."""
    conditions: list[dict[str, Any]] = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
