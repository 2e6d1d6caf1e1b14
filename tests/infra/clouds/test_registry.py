"""Which program makes the clusters of a cloud, and what it needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import infra.clouds
from fleet.clouds import CLOUDS, SCHEMAS
from fleet.errors import ToolError
from infra.clouds import MODULES, program
from infra.clouds.protected import RACKS_BY_CLOUD, RETAINED_BY_CLOUD


def test_every_cloud_of_a_fleet_file_has_a_program() -> None:
    """A cloud that can be named and described can be made, or says that it is there."""
    assert set(MODULES) == set(SCHEMAS) == set(RETAINED_BY_CLOUD) == set(RACKS_BY_CLOUD)
    assert set(SCHEMAS) == set(CLOUDS)


def test_only_the_sdk_of_the_cloud_is_imported() -> None:
    """Azure's alone takes seconds, and nobody installs all of them."""
    packages = [package for _, package in MODULES.values() if package]
    code = (
        "import json, sys, infra.cluster_program, infra.clouds\n"
        "for cloud in ('existing', 'aws'):\n"
        "    infra.clouds.program(cloud)\n"
        f"    print(json.dumps([name for name in {packages!r} if name in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in found.stdout.splitlines()] == [[], [MODULES["aws"][1]]]


def test_a_missing_package_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`No module named pulumi_aws` says neither which cloud nor which extra."""
    monkeypatch.setitem(sys.modules, "pulumi_aws", None)
    for name in [name for name in sys.modules if name.startswith("infra.clouds.aws")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ToolError, match=r"pulumi_aws is missing.*pip install 'k3fleet\[aws\]'"):
        program("aws")


def test_a_fault_of_our_own_is_no_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt import must not send anybody to pip."""
    modules = {**MODULES, "existing": ("infra.clouds.exisitng", None)}
    monkeypatch.setattr(infra.clouds, "MODULES", modules)
    with pytest.raises(ModuleNotFoundError):
        program("existing")
