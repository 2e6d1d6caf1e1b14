"""Mounted objects are shown as a kubelet shows them: all files of a volume turn at one moment."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from lab_builders import pod

from lab.volumes import DATA, Mount, Volume, files_of, show, volumes_of

CONFIG = Volume(kind="ConfigMap", name="c", folder=Path("/x"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".."))


def test_a_change_turns_one_link(tmp_path: Path) -> None:
    """Envoy watches for `..data` to be moved: written in place, it would hear of nothing."""
    show(tmp_path, {"a": b"1", "b": b"1"})
    before = (tmp_path / DATA).readlink()
    opened = (tmp_path / "a").open("rb")
    assert show(tmp_path, {"a": b"2", "c/d": b"2"})
    assert (tmp_path / DATA).is_symlink()
    assert (tmp_path / DATA).readlink() != before
    assert opened.read() == b"1"  # who reads goes on with what it opened
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "c/d").read_bytes()) == (b"2", b"2")
    assert names(tmp_path) == ["a", "c"]
    assert len(list(tmp_path.glob("..*"))) == 2  # no old data is left
    opened.close()


def test_the_same_again_is_no_change(tmp_path: Path) -> None:
    """A watch tells of every change of labels, and Envoy would read all anew each time."""
    assert show(tmp_path, {"a": b"1"})
    assert not show(tmp_path, {"a": b"1"})


def test_a_volume_without_files_can_be_watched(tmp_path: Path) -> None:
    """The ConfigMap of `traffic drain` is not there until the first drain."""
    assert show(tmp_path, {})
    assert (tmp_path / DATA).is_dir()
    assert show(tmp_path, {"a": b"1"})
    assert names(tmp_path) == ["a"]
    assert show(tmp_path, {})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "found", "files"),
    [
        ({}, {"data": {"a": "1"}, "binaryData": {"b": "/w=="}}, {"a": b"1", "b": b"\xff"}),
        ({}, {}, {}),
        ({}, None, None),
        ({"optional": True}, None, {}),
        ({"kind": "Secret"}, {"data": {"a": base64.b64encode(b"1").decode()}}, {"a": b"1"}),
        ({"items": (("a", "x/y"),)}, {"data": {"a": "1", "b": "2"}}, {"x/y": b"1"}),
        ({"items": (("c", "c"),)}, {"data": {"a": "1"}}, None),
        ({"items": (("c", "c"),), "optional": True}, {"data": {"a": "1"}}, {}),
    ],
)
def test_files_are_what_kubernetes_shows(
    changes: dict[str, Any], found: dict[str, Any] | None, files: dict[str, bytes] | None
) -> None:
    """None: the pod has to wait, as `kubectl describe` would say of its mount."""
    fields: dict[str, Any] = {"kind": "ConfigMap", "name": "c", "folder": Path("/x"), **changes}
    assert files_of(Volume(**fields), found) == files


def test_config_maps_and_secrets_are_found() -> None:
    """Other volumes are folders, or not there in a lab."""
    spec = {
        "containers": [{"name": "main"}],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "a", "configMap": {"name": "one", "optional": True}},
            {"name": "b", "secret": {"secretName": "two", "items": [{"key": "k", "path": "p"}]}},
        ],
    }
    folders = {name: Path("/v", name) for name in ("tmp", "a", "b")}
    assert volumes_of(pod("x", spec=spec), folders) == (
        Volume(kind="ConfigMap", name="one", folder=Path("/v/a"), optional=True),
        Volume(kind="Secret", name="two", folder=Path("/v/b"), items=(("k", "p"),)),
    )


def test_what_is_mounted_by_sub_path_stays_as_it_was(tmp_path: Path) -> None:
    """Kubernetes refreshes whole volumes only; a container that starts again sees the new file."""
    volume = tmp_path / "volumes" / "config"
    show(volume, {"a": b"1"})
    whole = Mount(path=tmp_path / "root/etc/all", source=volume, copied=False)
    part = Mount(path=tmp_path / "root/etc/a", source=volume / "a", copied=True)
    for mount in (whole, part):
        mount.appear()
    show(volume, {"a": b"2"})
    assert ((whole.path / "a").read_bytes(), part.path.read_bytes()) == (b"2", b"1")
    for mount in (whole, part):
        mount.appear()
    assert part.path.read_bytes() == b"2"
