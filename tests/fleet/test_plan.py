"""The plan: racks, totals, warnings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.load import PRESET_FOLDERS, load_fleet
from fleet.plan import Plan, make_plan, plan_json

ROOT = Path(__file__).parents[2]
WriteFile = Callable[..., Path]


def _plan(path: Path) -> Plan:
    return make_plan(load_fleet(path))


def test_the_demo_fleet_runs_eighteen_replicas_on_all_gpus() -> None:
    """Two racks of 72 GPUs, none unused."""
    totals = _plan(ROOT / "fleets/demo.yaml").totals
    assert (totals.racks, totals.replicas, totals.gpus, totals.nodes) == (2, 18, 144, 36)


def test_seventeen_healthy_nodes_give_eight_replicas_and_say_so(write_file: WriteFile) -> None:
    """An SRE who reads nine elsewhere must find the reason here."""
    plan = _plan(write_file(change=("id: use1-r01", "id: use1-r01\n        healthy_nodes: 17")))
    assert plan.regions[0].racks[0].replicas == 8
    assert (
        "rack use1-r01: 17 of 18 nodes healthy: 8 replicas, 1 healthy node idle." in plan.warnings
    )


@pytest.mark.parametrize(
    ("rack", "warning"),
    [
        ("healthy_nodes: 16", "rack use1-r01: 16 of 18 nodes healthy: 8 replicas."),
        (
            "healthy_nodes: 1",
            "rack use1-r01: 1 of 18 nodes healthy, a replica needs 2: it holds nothing.",
        ),
        (
            "replicas: 6",
            "rack use1-r01: 6 replicas asked, 9 fit; 6 healthy nodes stay idle by choice.",
        ),
    ],
)
def test_a_rack_that_is_not_full_is_mentioned(
    write_file: WriteFile, rack: str, warning: str
) -> None:
    """Every missing replica has its sentence."""
    plan = _plan(write_file(change=("id: use1-r01", f"id: use1-r01\n        {rack}")))
    assert warning in plan.warnings


def test_a_region_with_one_rack_has_no_spare(write_file: WriteFile) -> None:
    """Said before the launch, not in the post-mortem."""
    warnings = _plan(write_file()).warnings
    assert "region us-east: one rack, no spare. Losing it takes the region out." in warnings


def test_a_region_with_two_racks_is_not_warned_about(write_file: WriteFile) -> None:
    """A warning that is always there is not read."""
    plan = _plan(write_file(change=("- id: use1-r01", "- id: use1-r01\n      - id: use1-r02")))
    assert not [warning for warning in plan.warnings if "no spare" in warning]


def test_an_image_that_can_change_is_warned_about(write_file: WriteFile) -> None:
    """The frontend image has no public digest, so its owner must pin it."""
    assert any("has no digest" in warning for warning in _plan(write_file()).warnings)


def test_a_pinned_image_is_not_warned_about(write_file: WriteFile) -> None:
    """Doing what the warning says must end it."""
    preset = (PRESET_FOLDERS["release"] / "vllm-tp8-dcp8.yaml").read_text()
    pinned = "vllm-runtime:1.6.1@sha256:" + "0" * 64
    write_file(preset, name="pinned.yaml", change=("vllm-runtime:1.6.1", pinned))
    plan = _plan(write_file(change=("vllm-tp8-dcp8", "pinned.yaml")))
    assert not [warning for warning in plan.warnings if "digest" in warning]


def test_weights_are_staged_on_every_node_in_use(write_file: WriteFile) -> None:
    """Each node keeps its copy on local disk: 18 x 1.56 TB in a full rack."""
    assert _plan(write_file()).weights_bytes_to_stage == 18 * 1_560_000_000_000


def test_a_rack_without_replicas_stages_nothing(write_file: WriteFile) -> None:
    """An empty rack is legal: it may be under repair."""
    plan = _plan(write_file(change=("id: use1-r01", "id: use1-r01\n        replicas: 0")))
    assert (plan.totals.gpus, plan.weights_bytes_to_stage) == (0, 0)


def test_json_has_the_documented_keys(write_file: WriteFile) -> None:
    """Scripts read these names."""
    data = json.loads(json.dumps(plan_json(_plan(write_file()))))
    rack = data["regions"][0]["racks"][0]
    assert {key: rack[key] for key in ("id", "nodes", "healthy_nodes", "replicas")} == {
        "id": "use1-r01",
        "nodes": 18,
        "healthy_nodes": 18,
        "replicas": 9,
    }
    assert {"racks", "replicas", "gpus"} <= set(data["totals"])


def test_the_same_file_gives_the_same_plan(write_file: WriteFile) -> None:
    """A plan that differs between two runs cannot be reviewed."""
    path = write_file()
    assert plan_json(_plan(path)) == plan_json(_plan(path))


def test_affinity_that_hides_the_mode_is_warned_about(write_file: WriteFile):
    """With affinity a round-robin fleet shows the hit rate of KV routing, and misleads."""
    change = ("name: demo", "name: demo\nrouter: {mode: random, session_affinity: soft}")
    warnings = make_plan(load_fleet(write_file(change=change))).warnings
    assert any("mode random then only places new ones" in warning for warning in warnings)


def test_a_mode_other_than_kv_comes_without_affinity(write_file: WriteFile):
    """Whoever writes round-robin wants round-robin."""
    change = ("name: demo", "name: demo\nrouter: {mode: round-robin}")
    assert load_fleet(write_file(change=change)).router.session_affinity == "off"
