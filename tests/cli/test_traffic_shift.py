"""`k3fleet traffic drain` as an operator types it, over clusters in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rack_world import MAPS, RackWorld, cluster_of

import cli.racks_where
from cli.main import main
from fleet.load import Fleet, load_fleet
from infra.gateway import SETS_ANNOTATION, SETS_MAP
from lab.racks import RackPlaces
from lab.rehearsal import Surroundings

FLEET = """\
apiVersion: k3fleet/v1
name: demo
release: vllm-tp8-dcp8
regions:
  - name: us-east
    racks: [{id: use1-r01}]
  - name: us-west
    gateway_address: 10.0.0.2:8080
    racks: [{id: usw1-r01}]
"""


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, RackWorld]]:
    """Bring up a rack in two regions; the way to their clusters is all that is replaced."""
    (tmp_path / "fleet.yaml").write_text(FLEET)
    release = load_fleet(tmp_path / "fleet.yaml").release_id
    made = {}
    for name, rack in (("us-east", "use1-r01"), ("us-west", "usw1-r01")):
        made[name] = RackWorld(release=release)
        made[name].fill(rack, 18, 9)
        owned(made[name], region=name)
        metadata = {"name": SETS_MAP, "annotations": {SETS_ANNOTATION: "set-a"}}
        made[name].store[f"{MAPS}/{SETS_MAP}"] = {"kind": "ConfigMap", "metadata": metadata}
    clusters = {name: replace(cluster_of(world, name), region=name) for name, world in made.items()}

    class Places(RackPlaces):
        @classmethod
        def of(cls, fleet: Fleet, around: Surroundings, **_where: Any) -> RackPlaces:
            return RackPlaces.reached(fleet, around, clusters)

    monkeypatch.setattr(cli.racks_where, "RackPlaces", Places)
    monkeypatch.chdir(tmp_path)
    yield made


def owned(world: RackWorld, **by: str) -> None:
    """Say of which fleet or region a namespace is."""
    labels = world.store["/api/v1/namespaces/k3"]["metadata"]["labels"]
    labels.update({f"k3fleet.io/{key}": value for key, value in by.items()})


def told(world: RackWorld) -> dict[str, str] | None:
    item = world.store.get(f"{MAPS}/gateway-traffic")
    return None if item is None else item["data"]


def test_a_dead_region_is_drained_at_once_and_the_storm_is_shown(
    worlds: dict[str, RackWorld], capsys: pytest.CaptureFixture[str]
) -> None:
    """What it costs is said before anything moves; the second time there is nothing to do."""
    words = ["traffic", "drain", "fleet.yaml", "us-east", "--at-once"]
    assert main([*words, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "at once: all receivers compute nothing else for 31m47s" in out
    assert told(worlds["us-east"]) is None
    assert main([*words, "--yes"]) == 0
    assert told(worlds["us-east"]) == {
        "sessions.elsewhere": "1000",
        "sessions.set-a": "0",
        "shares.set-a": "1000",
    }
    assert told(worlds["us-west"]) is None
    capsys.readouterr()
    assert main([*words, "--yes"]) == 0
    assert "nothing to move" in capsys.readouterr().out


def test_a_paced_move_is_planned_from_what_serves_elsewhere(
    worlds: dict[str, RackWorld], capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the receivers: twice as long."""
    words = ["traffic", "drain", "fleet.yaml", "us-east", "--dry-run", "-o", "json"]
    assert main(words) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["sessions"], len(whole["slices"]), whole["paced"]) == (2340, 20, True)
    for slot in range(5):
        worlds["us-west"].fall_silent(f"usw1-r01-n{2 * slot:02d}")
    assert main(words) == 0
    less = json.loads(capsys.readouterr().out)
    assert less["total_s"] == pytest.approx(whole["total_s"] * 9 / 4)


@pytest.mark.parametrize(
    ("region", "why"),
    [
        ("mars", "region mars: not in the fleet file"),
        ("us-west", "no other region says where its gateway is reached"),
    ],
)
def test_what_cannot_be_is_refused(
    worlds: dict[str, RackWorld], capsys: pytest.CaptureFixture[str], region: str, why: str
) -> None:
    """Before anything is asked or touched."""
    assert main(["traffic", "drain", "fleet.yaml", region, "--yes"]) == 3
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("command", ["drain", "restore"])
@pytest.mark.parametrize("wrong", ["us-east", "us-west"])
def test_sessions_of_another_fleet_are_left_where_they_are(
    worlds: dict[str, RackWorld], capsys: pytest.CaptureFixture[str], command: str, wrong: str
) -> None:
    """A kubeconfig leads to its cluster, which has a namespace of the same name."""
    owned(worlds[wrong], fleet="theirs")
    assert main(["traffic", command, "fleet.yaml", "us-east", "--at-once", "--yes"]) == 3
    assert f"namespace k3 belongs to fleet theirs, region {wrong}" in capsys.readouterr().err
    assert told(worlds["us-east"]) is None
