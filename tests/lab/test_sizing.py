"""A fleet that is too large for this machine is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.load import Fleet, load_fleet
from fleet.plan import make_plan
from lab.sizing import lab_needs, require_disk, require_room

GIB = 1024**3


def fleet_of(folder: Path, regions: int, racks: int) -> Fleet:
    lines = ["apiVersion: k3fleet/v1", "name: big", "release: vllm-tp8-dcp8", "regions:"]
    for region in range(regions):
        lines += [f"  - name: region{region}", "    racks:"]
        lines += [f"      - id: r{region}x{rack}" for rack in range(racks)]
    path = folder / "fleet.yaml"
    path.write_text("\n".join(lines) + "\n")
    return load_fleet(path)


def test_forty_racks_say_what_they_would_need(tmp_path: Path):
    """The answer has to be a number of GiB, not a machine that swaps."""
    fleet = fleet_of(tmp_path, 2, 20)
    plan = make_plan(fleet)
    needs = lab_needs(fleet, plan, real_tokenizer=False)
    assert needs.memory_bytes > 36 * GIB
    with pytest.raises(ConfigError, match=r"360 replicas in 2 region\(s\) need about .*GB"):
        require_room(fleet, plan, needs, available_bytes=20 * GIB)


def test_the_demo_fits_into_twelve_gib(tmp_path: Path):
    """Two racks have to run on a laptop."""
    fleet = fleet_of(tmp_path, 2, 1)
    plan = make_plan(fleet)
    needs = lab_needs(fleet, plan, real_tokenizer=False)
    require_room(fleet, plan, needs, available_bytes=12 * GIB)


def test_more_regions_than_addresses_are_refused(tmp_path: Path):
    """Each region has its own block of loopback addresses."""
    fleet = fleet_of(tmp_path, 17, 1)
    plan = make_plan(fleet)
    needs = lab_needs(fleet, plan, real_tokenizer=False)
    with pytest.raises(ConfigError, match="17 regions"):
        require_room(fleet, plan, needs, available_bytes=10**15)


def test_a_full_disk_is_refused_before_etcd_meets_it(tmp_path: Path):
    """etcd on a full disk fails in ways that take long to understand."""
    fleet = fleet_of(tmp_path, 2, 1)
    needs = lab_needs(fleet, make_plan(fleet), real_tokenizer=False)
    require_disk(tmp_path, needs, free_bytes=2 * GIB)
    with pytest.raises(ConfigError, match=r"needs about .* of disk, 100 MB are free"):
        require_disk(tmp_path, needs, free_bytes=100_000_000)
