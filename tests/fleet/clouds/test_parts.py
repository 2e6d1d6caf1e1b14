"""The parts of a fleet file whose keys depend on the region's cloud."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider_fleets import aws_region, existing_region, gcp_region, write_fleet

from fleet.clouds import SCHEMAS, aws, existing
from fleet.errors import ConfigError
from fleet.load import load_fleet
from fleet.plan import make_plan
from fleet.provisioning import load_provisionable
from fleet.region_spec import RackSpec, RegionSpec

HERE = {"name": "here", "racks": [{"id": "h-r01"}]}


def test_each_region_gets_the_models_of_its_cloud(tmp_path: Path) -> None:
    """Programs get what they can use, and no dict."""
    labelled = {
        **HERE,
        "cluster": {"rack_label": "example.com/rack"},
        "racks": [{"id": "h-r01", "capacity": {"label_value": "one"}}],
    }
    made, there = load_fleet(write_fleet(tmp_path, aws_region(), labelled)).spec.regions
    assert isinstance(made.cluster, aws.Cluster)
    assert isinstance(made.racks[0].capacity, aws.Rack)
    assert isinstance(there.cluster, existing.Cluster)
    assert isinstance(there.racks[0].capacity, existing.Rack)


@pytest.mark.parametrize("cloud", sorted(SCHEMAS))
def test_a_cloud_without_a_cluster_can_be_planned(tmp_path: Path, cloud: str) -> None:
    """Fleet files of today name a cloud and nothing more; they stay valid."""
    fleet = load_fleet(write_fleet(tmp_path, {**HERE, "cloud": cloud}))
    assert make_plan(fleet).totals.racks == 1
    assert fleet.spec.regions[0].cluster is None


def test_what_was_read_can_be_written_and_read_again(tmp_path: Path) -> None:
    """A part is shown with its cloud's keys, not as an empty mapping."""
    region = load_fleet(write_fleet(tmp_path, aws_region())).spec.regions[0]
    again = RegionSpec.model_validate(region.model_dump(mode="json", by_alias=True))
    assert again == region


def test_a_capacity_without_a_region_is_of_no_cloud() -> None:
    """Nobody could say which keys it has."""
    with pytest.raises(ValueError, match="belongs to no region"):
        RackSpec.model_validate({"id": "r01", "capacity": {"reservation": "cr-1"}})


def test_a_secret_in_an_address_is_not_shown(tmp_path: Path) -> None:
    """Error texts end up in CI logs."""
    region = {**HERE, "cluster": {"endpoint": "https://admin:hunter2@host"}}
    with pytest.raises(ConfigError, match="names a user or a password") as caught:
        load_fleet(write_fleet(tmp_path, region))
    assert "hunter2" not in str(caught.value)


def test_an_account_id_keeps_its_leading_zero(tmp_path: Path) -> None:
    """As a number, 012345678901 would name another account."""
    region = aws_region()
    region["cluster"]["account"] = "012345678901"
    region["cluster"]["admins"] = ["arn:aws:iam::012345678901:role/sre"]
    cluster = load_fleet(write_fleet(tmp_path, region)).spec.regions[0].cluster
    assert isinstance(cluster, aws.Cluster)
    assert cluster.account == "012345678901"


def test_numbers_of_another_base_are_no_account(tmp_path: Path) -> None:
    """Twelve Arabic-Indic digits are digits to Python, and nothing to AWS."""
    region = aws_region()
    region["cluster"]["account"] = "١٢٣٤٥٦٧٨٩٠١٢"
    with pytest.raises(ConfigError, match="no account id"):
        load_fleet(write_fleet(tmp_path, region))


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
)
ANYTHING = st.recursive(
    SCALARS | st.sampled_from(["us-east-1a", "10.0.0.0/8", "arn:aws:iam::", "cr-", "::", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=5,
)


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = data.keys() if isinstance(data, dict) else range(len(data))
    for key in keys:
        yield (*path, key)
        if isinstance(data[key], dict | list):
            yield from _places(data[key], (*path, key))


def _replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    inner = data[path[0]]
    changed = value if len(path) == 1 else _replaced(inner, path[1:], value)
    copied = dict(data) if isinstance(data, dict) else list(data)
    copied[path[0]] = changed
    return copied


@pytest.mark.parametrize("region", [aws_region(), gcp_region("g"), existing_region("e")])
@given(data=st.data())
def test_no_value_anywhere_is_worse_than_a_message(
    tmp_path_factory: pytest.TempPathFactory, region: dict[str, Any], data: st.DataObject
) -> None:
    """A file is refused with its line, or it is fit for the programs: never a traceback."""
    place = data.draw(st.sampled_from(sorted(_places(region), key=str)))
    changed = _replaced(region, place, data.draw(ANYTHING))
    path = write_fleet(tmp_path_factory.getbasetemp(), changed)
    with contextlib.suppress(ConfigError):
        load_provisionable(path)
