"""The clusters of racks are found: a lab that is up, or a kubeconfig."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.wiring import surroundings
from fleet.errors import ConfigError, LabError
from fleet.load import Fleet, load_fleet
from lab.racks import RackPlaces, default_kubeconfig
from lab.rehearsal import Surroundings

DEMO = Path(__file__).parents[2] / "fleets/demo.yaml"


@pytest.fixture
def fleet() -> Fleet:
    """Give the demo fleet: two regions without a context."""
    return load_fleet(DEMO)


@pytest.fixture
def around(fleet: Fleet, tmp_path: Path) -> Surroundings:
    """Give a work folder without a lab, and a home with a kubeconfig."""
    config: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "x",
    }
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(yaml.safe_dump(config))
    return replace(surroundings(fleet, tmp_path), environ={"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.kube/config"),
        ({"HOME": "/home/ada", "KUBECONFIG": "/etc/k"}, "/etc/k"),
        ({"KUBECONFIG": "/etc/k:/etc/other"}, "/etc/k"),
    ],
)
def test_the_kubeconfig_is_where_kubectl_looks(environ: dict[str, str], path: str) -> None:
    """Its first file; contexts of several are not merged."""
    assert default_kubeconfig(environ) == Path(path)


def test_without_a_lab_the_kubeconfig_is_taken(fleet: Fleet, around: Surroundings) -> None:
    """One cluster for each region, in the fleet's namespace."""
    found = RackPlaces.of(fleet, around, lab_dir=None, kubeconfig=None)
    assert found.lab is None
    assert set(found.clusters) == {region.name for region in fleet.spec.regions}
    assert {own.namespace for own in found.clusters.values()} == {fleet.spec.namespace}
    assert ".kube/config" in found.said


def test_a_lab_that_is_named_has_to_be_up(
    fleet: Fleet, around: Surroundings, tmp_path: Path
) -> None:
    """Falling back to real clusters would be the worst of mistakes."""
    with pytest.raises(LabError, match="no lab is up"):
        RackPlaces.of(fleet, around, lab_dir=tmp_path, kubeconfig=None)


def test_a_rack_is_found_in_its_region(fleet: Fleet, around: Surroundings) -> None:
    """Ids are unique in a fleet; another one is an error that names them."""
    found = RackPlaces.of(fleet, around, lab_dir=None, kubeconfig=None)
    region = fleet.spec.regions[-1]
    assert found.region_of(region.racks[-1].id) == region.name
    with pytest.raises(ConfigError, match=region.racks[-1].id):
        found.region_of("nowhere")
