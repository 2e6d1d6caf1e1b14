"""Wheels in, a table out, and what is refused."""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fake_wheels import fake_wheel

from fleet.errors import ConfigError, FleetError, ToolError
from infra.flag_sources import wheel as wheels
from infra.flag_sources.table import write_table
from infra.flag_sources.update import update

MANY = "".join(f"        parser.add_argument('--flag-{index}')\n" for index in range(30))
ARGUMENTS = f"class ServerArgs:\n    @staticmethod\n    def add_cli_args(parser):\n{MANY}"
MEMBERS = {"sglang/srt/server_args.py": ARGUMENTS, "sglang/srt/environ.py": "class Envs: ..."}


def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path) -> None:
    """A table that is made again shows no change in version control."""
    file = fake_wheel(tmp_path, "sglang", "9.9.9", MEMBERS)
    first = update("sglang==9.9.9", [file], tmp_path / "a").file.read_bytes()
    assert update("sglang==9.9.9", [file], tmp_path / "b").file.read_bytes() == first


def test_a_table_names_its_wheel_and_checksum(tmp_path: Path) -> None:
    """Anyone can see what a table was read from."""
    file = fake_wheel(tmp_path, "sglang", "9.9.9", MEMBERS)
    made = update("sglang==9.9.9", [file], tmp_path)
    content = json.loads(gzip.decompress(made.file.read_bytes()))
    assert made.file.name == "sglang-9.9.9.json.gz"
    assert content["sources"] == [{"wheel": file.name, "sha256": wheels.open_wheel(file).sha256}]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sglang", "is no engine and version"),
        ("sglang==../../etc", "is no engine and version"),
        ("triton==1.0", "is no engine with tables"),
        ("sglang==9.9.8", "is sglang 9.9.9. Give the wheel of sglang 9.9.8"),
        ("vllm==9.9.9", "Give the wheel of vllm 9.9.9"),
    ],
)
def test_a_target_that_does_not_fit_is_refused(tmp_path: Path, target: str, words: str) -> None:
    """A table under a wrong name would check against the wrong engine."""
    file = fake_wheel(tmp_path, "sglang", "9.9.9", MEMBERS)
    with pytest.raises(ConfigError, match=words):
        update(target, [file], tmp_path)


def test_a_wheel_without_the_expected_files_is_refused(tmp_path: Path) -> None:
    """An engine that moved its parser must not get an empty table."""
    file = fake_wheel(tmp_path, "sglang", "9.9.9", {"sglang/__init__.py": ""})
    with pytest.raises(ConfigError, match=r"has no sglang/srt/server_args\.py"):
        update("sglang==9.9.9", [file], tmp_path)


def test_a_layout_that_is_not_followed_is_refused(tmp_path: Path) -> None:
    """Too few flags would call every good command line wrong."""
    members = MEMBERS | {"sglang/srt/server_args.py": "class ServerArgs: ..."}
    file = fake_wheel(tmp_path, "sglang", "9.9.9", members)
    with pytest.raises(ConfigError, match="only 0 flags were found"):
        update("sglang==9.9.9", [file], tmp_path)


def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    """What is given by hand can be anything."""
    file = tmp_path / "sglang-9.9.9-py3-none-any.whl"
    file.write_bytes(b"not a zip")
    with pytest.raises(ConfigError, match="is no wheel"):
        update("sglang==9.9.9", [file], tmp_path)


def test_a_source_file_of_absurd_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zip of a few bytes can hold gigabytes."""
    file = fake_wheel(tmp_path, "sglang", "9.9.9", MEMBERS)
    monkeypatch.setattr(wheels, "MAX_TEXT_BYTES", 200)
    with pytest.raises(ConfigError, match="is larger than"):
        update("sglang==9.9.9", [file], tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """`--out` may point to a file."""
    place = tmp_path / "file"
    place.touch()
    with pytest.raises(FleetError, match="Give another folder with --out"):
        write_table({"engine": "vllm", "version": "1"}, place)


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("ERROR: No matching distribution found for vllm==0.0.1", ConfigError, "no such wheel"),
        ("ERROR: connection refused", ToolError, "Check the network"),
        ("/usr/bin/python3: No module named pip", ToolError, "-m ensurepip"),
    ],
)
def test_pips_refusal_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[Exception], words: str
) -> None:
    """A version that does not exist is the user's mistake, a broken network is not."""

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", said)

    monkeypatch.setattr(wheels.subprocess, "run", run)
    with pytest.raises(error, match=words):
        wheels.download("vllm==0.0.1", tmp_path)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give pip a folder of wheels instead of the network."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_wheels_that_are_not_given_come_from_pip(index: Path, tmp_path: Path) -> None:
    """The same table as from the file: what is downloaded is what is read."""
    file = fake_wheel(index, "sglang", "9.9.9", MEMBERS)
    downloaded = update("sglang==9.9.9", [], tmp_path / "a").file.read_bytes()
    assert downloaded == update("sglang==9.9.9", [file], tmp_path / "b").file.read_bytes()


def test_a_version_that_pip_cannot_find_is_the_users_mistake(index: Path, tmp_path: Path) -> None:
    """In pip's own words, which may change with it."""
    fake_wheel(index, "sglang", "9.9.9", MEMBERS)
    with pytest.raises(ConfigError, match="has no such wheel"):
        update("sglang==9.9.8", [], tmp_path)


def test_nothing_of_a_download_is_left(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a gigabyte each, in a folder where nobody looks."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    fake_wheel(index, "sglang", "9.9.9", MEMBERS)
    update("sglang==9.9.9", [], tmp_path / "out")
    assert list(temporary.iterdir()) == []
