"""docs/clouds.md against the code: what it shows must work, and be all there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cloud_fleets import PAGE, example, write_fleet
from promises_table import with_table
from pydantic import BaseModel

from fleet.clouds import CLOUDS, SCHEMAS, Cloud
from fleet.clouds.promises import promises_of
from fleet.model_paths import model_at
from fleet.provisioning import load_provisionable

# The page shows it apart, because it excludes `network`.
APART = {"aws": {"given_network"}}


def test_the_table_of_promises_is_the_codes() -> None:
    """To write it again: `python tests/support/promises_table.py docs/clouds.md`."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_an_example_can_be_provisioned(cloud: Cloud, tmp_path: Path) -> None:
    """It is what people copy."""
    fleet = load_provisionable(write_fleet(tmp_path, cloud))
    assert fleet.spec.regions[0].cloud == cloud


@pytest.mark.parametrize("cloud", CLOUDS)
def test_an_example_shows_every_key(cloud: Cloud) -> None:
    """The page is the only list of them."""
    region = example(cloud)["regions"][0]
    parts = {"cluster": SCHEMAS[cloud].cluster, "capacity": SCHEMAS[cloud].rack}
    given = {"cluster": region["cluster"], "capacity": region["racks"][0]["capacity"]}
    missing = {
        path for part, model in parts.items() for path in _not_shown(model, given[part], part)
    }
    assert {path.rpartition(".")[2] for path in missing} == APART.get(cloud, set())


def _not_shown(model: type[BaseModel], data: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in model.model_fields:
        if name not in data:
            yield f"{path}.{name}"
        elif isinstance(data[name], dict) and (inner := model_at(model, (name,))):
            yield from _not_shown(inner, data[name], f"{path}.{name}")


def test_all_clouds_answer_the_same_questions() -> None:
    """A cloud that leaves one out looks better than one that says no."""
    questions = {tuple(promise.what for promise in promises_of(cloud)) for cloud in CLOUDS}
    assert len(questions) == 1


def test_what_is_kept_by_nobody_says_what_to_do() -> None:
    """A bare no helps no operator at three in the morning."""
    assert all(promise.instead for cloud in CLOUDS for promise in promises_of(cloud))


def test_azure_does_not_promise_a_rack() -> None:
    """AKS cannot ask for one; whoever reads the table must see it."""
    first = promises_of("azure")[0]
    assert first.what == "a rack's nodes are one NVLink domain"
    assert not first.kept
    assert "k3fleet racks preflight" in first.instead
