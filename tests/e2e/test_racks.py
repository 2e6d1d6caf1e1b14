"""Racks in the lab: looked at, drained under requests, killed in between, and brought back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from cli_runs import Here
from lightkube.resources.core_v1 import Node
from rollout_lab import BY_STRATEGY, FILE, Lab, lab_of

pytestmark = pytest.mark.lab

RACK = "r01"
# Seven healthy nodes: three replicas, and one node to spare.
FLEET = """\
apiVersion: k3fleet/v1
name: racks
release: ./quick.yaml
frontends: {replicas: 1}
regions:
  - name: here
    racks: [{id: r01, healthy_nodes: 7}]
"""
STRATEGY = """\
apiVersion: k3fleet/v1
floor: {rack: 0.5, region: 0.5}
deadlines: {ready: 60s, registered: 30s}
"""
STORY_TOKENS = 1500  # about 14 s, well within the budget


@pytest.fixture(scope="module")
def lab(shared: Here) -> Iterator[Lab]:
    """Bring up a rack of three replicas."""
    with lab_of(shared, FLEET, STRATEGY, {"quick": {"drain_s": "30s"}}) as lab:
        yield lab


def racks(here: Here) -> tuple[int, dict[str, Any]]:
    ended = here.run("racks", "show", FILE, "-o", "json")
    assert ended.code in (0, 1), ended.err
    told: dict[str, Any] = json.loads(ended.out)
    return ended.code, told


def nodes_of(told: dict[str, Any], replica: str) -> list[str]:
    return [node["name"] for node in told["racks"][0]["nodes"] if node["replica"] == replica]


def touch(here: Here, command: str, *nodes: str) -> str:
    ended = here.run("racks", command, FILE, RACK, *nodes, *BY_STRATEGY)
    assert ended.code == 0, ended.err
    return ended.err


def test_what_is_there_is_what_the_fleet_file_says(shared: Here, lab: Lab) -> None:
    """Eleven sick nodes are known to the file; nobody has to do anything."""
    assert shared.run("racks", "list", FILE).code == 0
    code, told = racks(shared)
    [rack] = told["racks"]
    assert (code, told["differences"]) == (0, [])
    assert rack["replicas"] == {f"r01-{slot}": "serves" for slot in range(3)}
    assert len(rack["nodes"]) == 18
    assert {node["release"] for node in rack["nodes"]} == {None, lab.releases()["r01-0"]}


def test_the_picture_is_of_this_rack(shared: Here, lab: Lab) -> None:
    """Six trays in use, and a file that a browser reads."""
    drawing = shared.folder / "rack.svg"
    ended = shared.run("racks", "show", FILE, "--rack", RACK, "--svg", str(drawing))
    assert (ended.code, ended.out.count("■■■■")) == (0, 6)
    text = " ".join(ElementTree.parse(drawing).getroot().itertext())  # noqa: S314 - ours
    assert "3 replicas serve, 18 of 18 nodes, 11 sick or cordoned, 1 idle" in text


def test_preflight_says_what_a_lab_has_not(shared: Here, lab: Lab) -> None:
    """No driver, no disks, and eleven nodes cordoned: nothing is made up for them."""
    ended = shared.run("racks", "preflight", FILE, "-o", "json")
    [rack] = json.loads(ended.out)["racks"]
    verdicts = {check["name"]: check["verdict"] for check in rack["checks"]}
    assert (ended.code, verdicts["nodes"], verdicts["clique"]) == (2, "ok", "ok")
    assert (verdicts["imex"], verdicts["reports"]) == ("unknown", "unknown")


def test_a_replica_moves_to_spare_nodes_and_nobody_notices(shared: Here, lab: Lab) -> None:
    """A stream that had begun on it comes to its end."""
    _, told = racks(shared)
    drained = nodes_of(told, "r01-0")[0]
    heard: list[str] = []
    story = threading.Thread(target=lab.stream, args=("r01-0", STORY_TOKENS, heard))
    story.start()
    with lab.watched() as seen:
        touch(shared, "drain", drained)
    story.join(timeout=60)
    assert (heard[-1], seen.faults) == ("data: [DONE]", [])
    assert seen.answers > 0
    _, told = racks(shared)
    assert told["racks"][0]["replicas"] == {f"r01-{slot}": "serves" for slot in range(3)}
    assert drained not in nodes_of(told, "r01-0")


def test_without_spare_nodes_it_is_parked(shared: Here, lab: Lab) -> None:
    """Six nodes are left, and one of them goes: the other two replicas are not touched."""
    before = lab.leaders()
    _, told = racks(shared)
    with lab.watched() as seen:
        said = touch(shared, "drain", nodes_of(told, "r01-1")[0])
    assert "r01-1: there is no room for it, parked" in said
    assert (seen.faults, seen.fewest) == ([], {"here": 2})
    code, told = racks(shared)
    assert code == 1
    assert told["racks"][0]["replicas"]["r01-1"] == "parked"
    after = lab.leaders()
    assert after == {name: uid for name, uid in before.items() if name != "r01-1"}


def test_everything_comes_back(shared: Here, lab: Lab) -> None:
    """The nodes that the lab's health agent cordoned stay as they are."""
    touch(shared, "uncordon")
    code, told = racks(shared)
    assert (code, told["differences"]) == (0, [])
    [cluster] = lab.clusters
    cordoned = [n for n in cluster.client.list(Node) if n.spec and n.spec.unschedulable]
    assert len(cordoned) == 11


def test_a_killed_drain_goes_on(shared: Here, lab: Lab) -> None:
    """SIGKILL while streams end: the lease is free for this machine, the same command ends it."""
    _, told = racks(shared)
    node = nodes_of(told, "r01-2")[0]
    story = threading.Thread(target=lab.stream, args=("r01-2", STORY_TOKENS, []))
    story.start()
    driver = shared.start("racks", "drain", FILE, RACK, node, *BY_STRATEGY)
    assert driver.stderr is not None
    for line in driver.stderr:
        if "out of routing" in line:
            break
    driver.kill()
    driver.wait(timeout=30)
    story.join(timeout=60)
    said = touch(shared, "drain", node)
    assert "has ended without giving it back" in said
    _, told = racks(shared)
    assert node not in nodes_of(told, "r01-2")
    touch(shared, "uncordon")
    code, told = racks(shared)
    assert (code, told["differences"]) == (0, [])


def heal(here: Here, *words: str) -> tuple[int, dict[str, Any], str]:
    ended = here.run("heal", FILE, *BY_STRATEGY, "-o", "json", *words)
    return ended.code, json.loads(ended.out), ended.err


def test_nothing_ill_is_nothing_to_heal(shared: Here, lab: Lab) -> None:
    """Eleven nodes that were cordoned by others are no reason to touch a replica."""
    assert heal(shared, "--dry-run")[:2] == (0, {"dry_run": True, "racks": []})


def test_a_replica_of_a_lost_node_moves_while_there_is_room(shared: Here, lab: Lab) -> None:
    """Six healthy nodes are three replicas: the spare one takes the place of the lost one."""
    [cluster] = lab.clusters
    before = lab.leaders()
    lost = nodes_of(racks(shared)[1], "r01-0")[0]
    machine = cluster.client.get(Node, lost)
    cluster.client.delete(Node, lost)
    code, told, _ = heal(shared, "--dry-run")
    [plan] = told["racks"]
    assert (code, lost in plan["ill"], plan["parked"]) == (1, True, [])
    assert plan["moves"] == [{"replica": "r01-0", "how": "move"}]
    assert lab.leaders() == before
    with lab.watched() as seen:
        assert heal(shared)[0] == 0
    assert (seen.faults, seen.fewest) == ([], {"here": 2})
    assert racks(shared)[1]["racks"][0]["replicas"] == {f"r01-{s}": "serves" for s in range(3)}
    assert {n: u for n, u in lab.leaders().items() if n != "r01-0"} == {
        n: u for n, u in before.items() if n != "r01-0"
    }
    assert machine.metadata
    machine.metadata.resourceVersion = machine.metadata.uid = None
    shared.folder.joinpath("lost.json").write_text(json.dumps(machine.to_dict()))


def test_what_has_no_room_is_parked_until_a_node_is_back(shared: Here, lab: Lab) -> None:
    """Five healthy nodes are two replicas, six are three again, and nobody has to say which."""
    [cluster] = lab.clusters
    ill = nodes_of(racks(shared)[1], "r01-1")[0]
    cluster.client.patch(Node, ill, {"metadata": {"labels": {"k3fleet.io/health": "unhealthy"}}})
    with lab.watched() as seen:
        code, told, said = heal(shared)
    assert (code, told["racks"][0]["parked"]) == (0, ["r01-1"])
    assert "r01-1: there is no room for it, parked" in said
    assert (seen.faults, seen.fewest) == ([], {"here": 2})
    assert racks(shared)[1]["racks"][0]["replicas"]["r01-1"] == "parked"
    cluster.client.create(Node.from_dict(json.loads((shared.folder / "lost.json").read_text())))
    code, told, said = heal(shared)
    assert (code, told["racks"][0]["back"]) == (0, ["r01-1"])
    assert "r01-1: has its pods again" in said
    assert racks(shared)[1]["racks"][0]["replicas"] == {f"r01-{s}": "serves" for s in range(3)}
    assert ill not in nodes_of(racks(shared)[1], "r01-1")
