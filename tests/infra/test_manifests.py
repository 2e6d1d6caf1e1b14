"""Rendered objects as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet.errors import ConfigError, FleetError
from fleet.load import Fleet
from infra.manifests import MARKER, manifest_text, write_manifests
from infra.render import KubeObject, render_region


def config_map(name: str, text: str = "x") -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"file": text},
    }


def files(folder: Path) -> dict[str, bytes]:
    found = sorted(folder.rglob("*.yaml"))
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


def test_the_same_fleet_gives_the_same_bytes(demo: Fleet, tmp_path: Path) -> None:
    """A diff of two renderings must show what changed, and nothing else."""
    for name in ("one", "two"):
        write_manifests([("serving", render_region(demo, "us-east", "serving"))], tmp_path / name)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_files_say_what_the_objects_say(demo: Fleet) -> None:
    """What `kubectl apply` reads is what Pulumi declares."""
    for item in render_region(demo, "us-east", "serving"):
        assert yaml.safe_load(manifest_text(item)) == item


def test_long_text_is_written_as_a_block() -> None:
    """A person must be able to read the gateway's configuration in the file."""
    assert "file: |\n    a: 1\n    b: 2\n" in manifest_text(config_map("x", "a: 1\nb: 2\n"))


def test_a_second_rendering_replaces_the_first_whole(tmp_path: Path) -> None:
    """A file of an object that is gone would be applied again."""
    out = tmp_path / "out"
    write_manifests([("a", [config_map("old")])], out)
    write_manifests([("a", [config_map("new")])], out)
    assert list(files(out)) == ["a/11-configmap-new.yaml"]


def test_a_folder_of_someone_else_is_refused(tmp_path: Path) -> None:
    """`--out .` must not cost anyone their work."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="was not written by"):
        write_manifests([("a", [config_map("x")])], tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    """`mkdir out` before is common."""
    assert write_manifests([("a", [config_map("x")])], tmp_path) == 1
    assert (tmp_path / MARKER).is_file()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """The message must name the mistake, not an errno."""
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        write_manifests([], tmp_path / "out")


def test_a_failed_rendering_leaves_the_old_one(tmp_path: Path) -> None:
    """Half a rendering is worse than an old one."""
    out = tmp_path / "out"
    write_manifests([("a", [config_map("old")])], out)

    def failing() -> Iterator[KubeObject]:
        yield config_map("new")
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        write_manifests([("a", failing())], out)
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert list(files(out)) == ["a/11-configmap-old.yaml"]


def test_a_disk_that_refuses_is_said_in_words(tmp_path: Path) -> None:
    """A full disk or a read-only folder is no bug of ours."""
    with pytest.raises(FleetError, match=r"cannot write: .* Free space"):
        write_manifests([("a", [config_map("x" * 300)])], tmp_path / "out")


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    """It is a typing mistake, and freeing space does not help."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="a part of this path is a file"):
        write_manifests([], tmp_path / "file" / "out")


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    """It can be neither read nor replaced."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(ConfigError, match="leads to itself"):
        write_manifests([], loop)
