"""`k3fleet racks` as an operator types it, over a cluster in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from rack_world import LEASES, MAPS, NODES, PODS, SETS, RackWorld, WorldCluster, cluster_of, node
from rollout_world import started

import cli.racks_where
from cli.main import main
from fleet.load import Fleet, load_fleet
from infra.rollout.ledger import Ledger, Packer, Stored
from infra.rollout.objects import ClusterObjects
from lab.racks import RackPlaces
from lab.rehearsal import Surroundings

FLEET = """\
apiVersion: k3fleet/v1
name: demo
release: vllm-tp8-dcp8
regions:
  - name: us-east
    racks:
      - {id: use1-r01}
"""
STRATEGY = "floor: {rack: 0.0, region: 0.0}\n"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def world(tmp_path: Path) -> RackWorld:
    """Bring up a full rack."""
    (tmp_path / "fleet.yaml").write_text(FLEET)
    made = RackWorld(release=load_fleet(tmp_path / "fleet.yaml").release_id)
    made.fill("use1-r01", 18, 9)
    return made


@pytest.fixture
def run(
    world: RackWorld, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Run a command on the world; the way to its cluster is the only thing that is replaced."""
    (tmp_path / "strategy.yaml").write_text(STRATEGY)
    cluster = cluster_of(world)
    monkeypatch.setattr(cli.racks_where, "RackPlaces", _places(cluster))
    monkeypatch.chdir(tmp_path)

    def ran(command: str, *words: str) -> tuple[int, str, str]:
        code = main(["racks", command, "fleet.yaml", *words])
        out, err = capsys.readouterr()
        return code, out, err

    yield ran


def _places(cluster: WorldCluster) -> type[RackPlaces]:
    class Places(RackPlaces):
        @classmethod
        def of(cls, fleet: Fleet, around: Surroundings, **_where: Any) -> RackPlaces:
            return RackPlaces.reached(fleet, around, {"us-east": cluster})

    return Places


def told(world: RackWorld, name: str, **labels: str) -> None:
    world.get(NODES, name)["metadata"]["labels"].update(labels)


def test_heal_shows_who_has_no_place_before_it_is_done(
    world: RackWorld, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """17 healthy nodes hold 8 replicas; a script sees by the code that there is something to do."""
    assert main(["heal", "fleet.yaml", "--dry-run"]) == 0
    assert "nothing to heal" in capsys.readouterr().err
    world.fall_silent("use1-r01-n05")
    words = ["heal", "fleet.yaml", "--strategy", "strategy.yaml"]
    assert main([*words, "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert "use1-r01: use1-r01-n05: not Ready" in out
    assert "use1-r01: park use1-r01-2: no two healthy nodes are left for it" in out
    assert "8 replicas stay, 0 move or wait, 1 have no place" in out
    assert main([*words, "--yes", "-o", "json"]) == 0
    [rack] = json.loads(capsys.readouterr().out)["racks"]
    assert (rack["ill"], rack["parked"], rack["back"]) == (["use1-r01-n05"], ["use1-r01-2"], [])
    assert len(world.serving) == 8
    assert main([*words, "--yes"]) == 0
    assert "nothing to heal" in capsys.readouterr().err


def test_a_rack_that_is_as_written_is_listed_with_0(run: Run) -> None:
    """For scripts: nothing to do."""
    code, out, _ = run("list")
    assert (code, out.splitlines()[-1]) == (0, "as the fleet file says")
    assert "9 of 9" in out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda w: w.store.pop(f"{NODES}/use1-r01-n17"),
            ["17 nodes, a rack has 18", "17 nodes are healthy, the fleet file counts on 18"],
        ),
        (
            lambda w: told(w, "use1-r01-n03", **{"nvidia.com/gpu.clique": "c9.1"}),
            ["2 cliques: c1.0, c9.1"],
        ),
        (
            lambda w: told(w, "use1-r01-n03", **{"k3fleet.io/health": "unhealthy"}),
            ["17 nodes are healthy", "use1-r01-n03: its health agent says unhealthy"],
        ),
        (
            lambda w: w.get(PODS, "use1-r01-4-0")["metadata"]["labels"].pop("k3fleet.io/routed"),
            ["replica use1-r01-4: out of routing"],
        ),
        (
            lambda w: w.get(PODS, "use1-r01-4-0")["metadata"]["labels"].update(
                {"k3fleet.io/release": "r-2"}
            ),
            ["use1-r01-4-0 runs r-2, its object says vllm-tp8-dcp8"],
        ),
        (
            lambda w: w.add(NODES, node("stray", None, clique="c1.0")),
            ["1 GPU nodes carry no rack label: stray"],
        ),
        (
            lambda w: w.add(NODES, node("x", "other", clique="c1.0")),
            ["other: 1 nodes carry its label", "fabric c1 is split over other, use1-r01"],
        ),
    ],
)
def test_a_difference_is_named_and_exits_1(
    run: Run, world: RackWorld, change: Callable[[RackWorld], object], says: list[str]
) -> None:
    """What is there, beside what the fleet file says."""
    change(world)
    code, out, _ = run("list")
    assert code == 1
    wrong = [line for line in out.splitlines() if line.startswith("wrong: ")]
    for text in says:
        assert any(text in line for line in wrong), wrong


def test_json_has_every_node(run: Run) -> None:
    """With its replica and release."""
    code, out, err = run("show", "--rack", "use1-r01", "-o", "json")
    [rack] = json.loads(out)["racks"]
    assert code == 0
    assert "racks: " in err
    assert len(rack["nodes"]) == 18
    assert {one["replica"] for one in rack["nodes"]} == {f"use1-r01-{slot}" for slot in range(9)}
    assert rack["expected"]["healthy_nodes"] == 18


def test_the_picture_is_drawn_and_written(run: Run, tmp_path: Path) -> None:
    """On the terminal and as a file."""
    code, out, _ = run("show", "--svg", str(tmp_path / "rack.svg"))
    assert code == 0
    assert out.count("■■■■") == 18
    assert out.count("NVLink switch") == 9
    ElementTree.parse(tmp_path / "rack.svg")  # noqa: S314 - ours


def test_a_cluster_without_anything_of_ours_can_be_looked_at(run: Run, world: RackWorld) -> None:
    """Racks are checked before the platform is there, and so before its kinds."""
    world.unknown = (SETS, "/apis/nvidia.com/v1alpha1/namespaces/k3/dynamoworkermetadatas")
    for path in [key for key in world.store if key.startswith((PODS, SETS))]:
        del world.store[path]
    code, out, _ = run("list")
    assert code == 1
    assert "replica use1-r01-0: no pod" in out
    assert "18 of 18" in out


def test_preflight_without_reports_is_unknown(run: Run) -> None:
    """Exit code 2: nothing that was seen is wrong, and not everything was seen."""
    code, out, _ = run("preflight", "-o", "json")
    [rack] = json.loads(out)["racks"]
    verdicts = {check["name"]: check["verdict"] for check in rack["checks"]}
    assert (code, verdicts["reports"], verdicts["nodes"]) == (2, "unknown", "ok")
    assert "--from-reports" in run("preflight")[1]  # what to do about it


def test_preflight_reads_files(run: Run, tmp_path: Path) -> None:
    """And one fault among them is exit code 1."""
    (tmp_path / "reports").mkdir()
    for number in range(18):
        report = {
            "schema": "k3fleet-node-report/1",
            "node": f"use1-r01-n{number:02d}",
            "arch": "aarch64",
            "kernel": "6.12.0",
            "driver": "580.95.05",
            "imex": {"state": "masked" if number else "enabled"},
            "disk": {"path": "/m", "device": "md0", "kind": "raid0", "members": 3},
        }
        (tmp_path / "reports" / f"{number}.json").write_text(json.dumps(report))
    code, out, _ = run("preflight", "--from-reports", "reports")
    assert code == 1
    assert "use1-r01-n00: the host's nvidia-imex is enabled" in " ".join(out.split())
    assert out.splitlines()[-1] == "verdict: wrong"


def test_a_drain_shows_what_it_would_do(run: Run, world: RackWorld) -> None:
    """And does nothing."""
    words = ("use1-r01", "use1-r01-n03", "--strategy", "strategy.yaml")
    code, out, _ = run("drain", *words, "--dry-run")
    assert (code, world.log) == (0, [])
    assert out.splitlines() == [
        "cordon use1-r01-n03",
        "park use1-r01-1: no two healthy nodes are left for it",
        "8 replicas stay, 0 move or wait, 1 have no place",
    ]


def test_a_drain_and_its_way_back(run: Run, world: RackWorld) -> None:
    """Two commands; the lease is free afterwards."""
    options = ("--strategy", "strategy.yaml", "--yes")
    code, out, err = run("drain", "use1-r01", "use1-r01-n03", *options, "-o", "json")
    assert code == 0
    assert json.loads(out)["moves"] == [{"replica": "use1-r01-1", "how": "drop"}]
    assert "use1-r01-1: there is no room for it, parked" in err
    assert len(world.serving) == 8
    code, out, _ = run("list")
    assert (code, "replica use1-r01-1: parked" in out) == (1, True)
    code, _, _ = run("uncordon", "use1-r01", *options)
    assert (code, len(world.serving)) == (0, 9)
    [lease] = world.all(LEASES)
    assert "holderIdentity" not in lease["spec"]


def test_a_release_that_nobody_knows_is_said_before_anything(run: Run, world: RackWorld) -> None:
    """How long its streams may take is in it."""
    for item in (*world.all(PODS), *world.all(SETS)):
        item["metadata"]["labels"]["k3fleet.io/release"] = "lost-1"
    options = ("--strategy", "strategy.yaml", "--yes")
    code, _, err = run("drain", "use1-r01", "use1-r01-n03", *options)
    assert (code, world.log) == (3, [])
    assert "release lost-1" in err


@pytest.mark.parametrize("command", ["cordon", "drain", "uncordon"])
def test_another_operator_is_not_disturbed(run: Run, world: RackWorld, command: str) -> None:
    """His lease says who he is; exit code 9."""
    spec = {
        "holderIdentity": "ada@elsewhere/7 rollout 3",
        "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "leaseDurationSeconds": 60,
    }
    meta = {"name": "k3fleet-rollout", "annotations": {"k3fleet.io/process": "boot ns 7 1.0"}}
    world.add(LEASES, {"metadata": meta, "spec": spec})
    code, _, err = run(command, "use1-r01", "use1-r01-n03", "--strategy", "strategy.yaml", "--yes")
    assert (code, world.log) == (9, [])
    assert "ada@elsewhere" in err


def test_the_floor_refuses_before_anything(run: Run, world: RackWorld) -> None:
    """The default keeps 85 % of a region serving: one rack cannot lose two of nine replicas."""
    code, _, err = run("drain", "use1-r01", "use1-r01-n00", "use1-r01-n02", "--yes")
    assert (code, world.log) == (3, [])
    assert "the floor is 8" in err


def test_an_open_rollout_refuses(run: Run, world: RackWorld) -> None:
    """Its steps count on every other replica."""
    ledger = Ledger(ClusterObjects(cluster_of(world)))
    ledger.write(3, Stored(entries=()), Packer().pack([started()]))
    assert world.all(MAPS)
    code, _, err = run("drain", "use1-r01", "use1-r01-n03", "--yes")
    assert (code, world.log) == (3, [])
    assert "the rollout to new-2 is running" in err


def test_labels_are_shown_written_and_then_there(run: Run, world: RackWorld) -> None:
    """A new tray takes the rack of its fabric; the second run changes nothing."""
    del world.get(NODES, "use1-r01-n05")["metadata"]["labels"]["k3fleet.io/rack"]
    code, out, _ = run("label", "--region", "us-east", "--dry-run")
    assert (code, world.log) == (0, [])
    assert "1 nodes change, 17 stay as they are" in out
    code, _, _ = run("label", "--region", "us-east", "--yes")
    assert (code, len(world.log)) == (0, 1)
    code, out, _ = run("label", "--region", "us-east", "--yes", "-o", "json")
    assert (code, json.loads(out)["changes"], len(world.log)) == (0, [], 1)


def test_a_node_under_a_replica_is_not_moved(run: Run, world: RackWorld) -> None:
    """Its pods are pinned to the label: they would be nowhere after a restart."""
    (Path.cwd() / "fleet.yaml").write_text(FLEET + "      - {id: use1-r02}\n")
    words = ("--region", "us-east", "--map", "c1=use1-r02", "--relabel", "--yes")
    code, _, err = run("label", *words)
    assert (code, world.log) == (3, [])
    assert "is on it. Drain it first" in err


def test_nothing_is_asked_without_a_terminal(run: Run, world: RackWorld) -> None:
    """A script has to say --yes."""
    code, _, err = run("cordon", "use1-r01", "use1-r01-n03")
    assert (code, world.log) == (3, [])
    assert "Give --yes" in err


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "no such file"),
        ("nonsense: [", "has no context west; it has: none"),
        ({"contexts": []}, "has no context west; it has: none"),
        (
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "east", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
            },
            "has no context west; it has: east",
        ),
    ],
)
def test_a_wrong_kubeconfig_is_named(
    tmp_path: Path, capsys: Any, config: object, says: str
) -> None:
    """Before anything is asked, and without a traceback."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET.replace("name: us-east", "name: us-east\n    context: west"))
    file = tmp_path / "config"
    if config is not None:
        file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    code = main(["racks", "list", str(fleet), "--kubeconfig", str(file)])
    assert code == 3
    assert says in capsys.readouterr().err


def test_an_api_server_that_is_away_is_exit_code_11(tmp_path: Path, capsys: Any) -> None:
    """It says which region, and what to type."""
    (tmp_path / "fleet.yaml").write_text(FLEET)
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    words = [str(tmp_path / "fleet.yaml"), "--kubeconfig", str(tmp_path / "config")]
    assert main(["racks", "list", *words]) == 11
    said = capsys.readouterr().err
    assert "us-east: its API server" in said
    assert "k3fleet racks list" in said
