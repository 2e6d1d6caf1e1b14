"""A stack's configuration file, checked without Pulumi."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fleet.load import Fleet
from infra.options import Layer
from infra.settings import Settings, to_config
from infra.stack_config import LAYER_KEYS, stack_file_problems

Found = Callable[..., list[str]]


@pytest.fixture
def found(tmp_path: Path, demo: Fleet) -> Found:
    """Check a configuration for the demo fleet, and give what is found without file and line."""

    def check(config: dict[str, object]) -> list[str]:
        path = tmp_path / "Pulumi.x.yaml"
        path.write_text(yaml.safe_dump({"encryptionsalt": "v1:x", "config": config}))
        return [f"{item.path}: {item.what}" for item in stack_file_problems(path, demo)]

    return check


@pytest.mark.parametrize("layer", ["platform", "serving"])
def test_what_we_write_ourselves_is_right(tmp_path: Path, demo: Fleet, layer: Layer) -> None:
    """Both sides of one table."""
    settings = Settings(fleet=demo.path, region="us-east", kubeconfig=tmp_path / "kubeconfig")
    config = {f"k3fleet-{layer}:{key}": value for key, value in to_config(settings).items()}
    path = tmp_path / f"Pulumi.{layer}-us-east.yaml"
    path.write_text(yaml.safe_dump({"config": config}))
    assert stack_file_problems(path, demo) == []


def test_each_mistake_is_named(found: Found) -> None:
    """The program would not even see an unknown key."""
    assert found({"k3fleet-cluster:fleet": "f", "k3fleet-cluster:regoin": "us-east"}) == [
        "config.k3fleet-cluster:regoin: unknown key",
        "config.k3fleet-cluster:region: is not set",
    ]
    assert found({"k3fleet-cluster:fleet": "f", "k3fleet-cluster:region": "us-wst"}) == [
        "config.k3fleet-cluster:region: 'us-wst' is no region of fleet demo"
    ]
    assert found({"k3fleet-cluser:region": "us-east"}) == [
        "config.k3fleet-cluser:region: is of no project of k3fleet"
    ]


def test_a_configuration_of_a_newer_k3fleet_is_not_judged_by_its_keys(found: Found) -> None:
    """One message: what else it says may be right there."""
    (only,) = found({"k3fleet-cluster:apiVersion": "k3fleet/v2", "k3fleet-cluster:news": "1"})
    assert only.startswith("config.k3fleet-cluster:apiVersion: 'k3fleet/v2' is newer than")


def test_other_projects_keys_are_not_ours_to_judge(found: Found) -> None:
    """A stack may hold settings of providers."""
    ours = {"k3fleet-cluster:fleet": "f", "k3fleet-cluster:region": "us-east"}
    assert found({**ours, "aws:profile": "x"}) == []
    assert found({"aws:profile": "x"}) == ["config: holds no configuration of a project of k3fleet"]


def test_every_layer_has_its_keys() -> None:
    """The Pulumi.yaml of a layer shows the same required keys to whoever works by hand."""
    infra = Path(__file__).parents[2] / "infra"
    for layer, (required, _) in LAYER_KEYS.items():
        project = infra / layer / "Pulumi.yaml"
        if layer == "global" and not project.is_file():
            continue
        keys = yaml.safe_load(project.read_text())["config"]
        assert {key.partition(":")[2] for key in keys} == set(required)
