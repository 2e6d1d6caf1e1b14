"""The tables that come with the package."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from fake_wheels import by_flag

from fleet.flag_table import TABLES, load_table
from fleet.load import load_release
from fleet.presets import preset_names

SHARED = Path(__file__).parents[4] / "shared/data/engine-flags"
NAMES = sorted(file.name.removesuffix(".json.gz") for file in TABLES.glob("*.json.gz"))
COMPARED = ("flags", "choices", "known_values", "negative_flags", "nargs", "deprecated", "config")
# dynamo.sglang declares it on SGLang's parser where that has lost it; the shared table lacks it.
MORE = {"sglang": {"--disable-piecewise-cuda-graph"}}


def _table(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(gzip.decompress((TABLES / f"{name}.json.gz").read_bytes()))
    return content


def _parsers(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    parts = content.get("components") or {"serve": content}
    return {name: by_flag(part["flags"]) for name, part in parts.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_table_loads(name: str) -> None:
    """The checker reads every file that is shipped, and each says what it was made from."""
    content = _table(name)
    assert content["engine"] in {"vllm", "sglang", "dynamo"}
    assert load_table(content["engine"], content["version"]) is not None
    assert all(len(source["sha256"]) == 64 for source in content["sources"])


def test_every_preset_has_the_tables_of_its_versions() -> None:
    """A release without a table is not checked."""
    releases = [load_release(name, beside=Path("here")) for name in preset_names("release")]
    wanted = {f"dynamo-{release.dynamo.version}" for release in releases}
    wanted |= {f"{each.engine.kind}-{each.engine.version}" for each in releases}
    assert {name for name in wanted if not name.startswith("trtllm-")} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_table_says_what_an_independent_reading_says(name: str) -> None:
    """Two programs that read the same wheel must agree on what is legal."""
    file = SHARED / f"{name}.json"
    if not file.is_file():
        pytest.skip(f"{file} is not on this machine")
    expected, found = json.loads(file.read_text()), _table(name)
    for component, flags in _parsers(expected).items():
        mine = _parsers(found)[component]
        assert set(mine) - MORE.get(component, set()) == set(flags)
        for flag, entry in flags.items():
            assert {key: mine[flag].get(key) for key in COMPARED} == {
                key: entry.get(key) for key in COMPARED
            }, flag
    keys = {name: set(table) for name, table in found.get("configs", {}).items()}
    assert keys == {name: set(table) for name, table in expected.get("configs", {}).items()}
    names = {each["name"] for each in expected["env"]}
    assert {each["name"] for each in found["env"]} - _only_ours(found, expected) == names


def _only_ours(found: dict[str, Any], expected: dict[str, Any]) -> set[str]:
    """Name the variables of components that only our reader follows: the TensorRT-LLM worker."""
    parts = found.get("components", {})
    mine = [parts[name] for name in parts if name not in expected["components"]]
    listed = {each["name"] for each in expected["env"]}
    return {str(flag.get("env")) for part in mine for flag in part["flags"]} - listed
