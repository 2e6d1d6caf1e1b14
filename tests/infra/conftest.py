"""Fleets for the tests of the infra package."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.load import Fleet, load_fleet

MakeFleet = Callable[..., Fleet]


def fleet_data(racks: Mapping[str, int] | None = None, **changes: Any) -> dict[str, Any]:
    """Describe a fleet of one region; racks maps ids to healthy nodes."""
    racks = racks or {"use1-r01": 18}
    items = [{"id": rack, "healthy_nodes": healthy} for rack, healthy in racks.items()]
    regions = [{"name": "us-east", "racks": items}]
    basic = {"apiVersion": "k3fleet/v1", "name": "demo", "release": "vllm-tp8-dcp8"}
    return {**basic, "regions": regions, **changes}


@pytest.fixture(scope="session")
def make_fleet(tmp_path_factory: pytest.TempPathFactory) -> MakeFleet:
    """Load a fleet as the product does: from a file."""
    folder = tmp_path_factory.mktemp("fleets")
    numbers = itertools.count()

    def make(racks: Mapping[str, int] | None = None, **changes: Any) -> Fleet:
        path = Path(folder, f"fleet-{next(numbers)}.yaml")  # some tests read it again
        path.write_text(yaml.safe_dump(fleet_data(racks, **changes)), encoding="utf-8")
        return load_fleet(path)

    return make


@pytest.fixture(scope="session")
def demo(make_fleet: MakeFleet) -> Fleet:
    """One region with one full rack."""
    return make_fleet()
