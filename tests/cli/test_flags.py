"""`k3fleet flags`: what a person sees of the tables."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from cli.main import main
from fleet.flag_table import known_versions


def test_the_list_names_every_shipped_table_with_its_wheels(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A table is worth what its source is."""
    assert main(["flags", "list", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    versions = [row["version"] for row in rows if row["engine"] == "vllm"]
    assert set(versions) == set(known_versions("vllm"))
    assert all(len(source["sha256"]) == 64 for row in rows for source in row["sources"])


@pytest.mark.parametrize("target", ["vllm", "vllm==", "nosuch==1.0", "vllm==1;rm"])
def test_what_is_no_engine_and_version_is_refused(target: str) -> None:
    """It becomes part of a pip command and of a file name."""
    assert main(["flags", "update", target]) == 3


def test_a_wheel_of_something_else_is_refused_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody wants an empty table that calls every flag wrong."""
    wheel = tmp_path / "vllm-9.9.9-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/__init__.py", "")
    code = main(["flags", "update", "vllm==9.9.9", "--wheel", str(wheel), "--out", str(tmp_path)])
    assert code == 3
    assert "vllm-9.9.9" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json.gz"))
