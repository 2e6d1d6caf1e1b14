"""Names from outside become keys and paths: what leads elsewhere is refused by name."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.weights.names import clashes, missing_shards, name_fault

SHARDS = [f"model-{n:05}-of-000096.safetensors" for n in range(1, 97)]


@pytest.mark.parametrize(
    "name",
    [*SHARDS[:2], ".gitattributes", "config.json", "figures/a_b.png", "a+b=c@d,e.bin", "..a/b"],
)
def test_names_of_models_are_accepted(name: str) -> None:
    """What hubs hold of a model, and what dots may be in it."""
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("../model.safetensors", "leads out"),
        ("a/../../b", "leads out"),
        ("/etc/passwd", "leads out"),
        ("a//b", "leads out"),
        ("a/", "leads out"),
        ("./a", "leads out"),
        ("a\\..\\b", "backslash"),
        ("a\0b", "NUL"),
        ("modèl.bin", "outside ASCII"),
        ("\uff4dodel.bin", "outside ASCII"),
        ("a b", "other than letters"),
        ("a\nb", "other than letters"),
        ("a;rm", "other than letters"),
        ("k3fleet-manifest.json", "keeps for itself"),
        (".k3fleet-ready", "keeps for itself"),
        (".K3FLEET-ready", "keeps for itself"),
        (".cache/x", "keeps for itself"),
        ("a" * 513, "513 characters"),
    ],
)
def test_tricks_are_refused_by_name(name: str, why: str) -> None:
    """Each in plain characters, since the message goes to a terminal."""
    fault = name_fault(name)
    assert fault is not None
    assert why in fault
    assert fault.isascii()
    assert fault.isprintable()


@given(st.text(max_size=40))
def test_an_accepted_name_stays_below_its_folder(name: str) -> None:
    """Whatever is tried: joined to a folder it is in the folder, and the same when normalised."""
    if name_fault(name) is None:
        path = PurePosixPath("/weights/rev", name)
        assert str(path) == f"/weights/rev/{name}"
        assert ".." not in path.parts


def test_names_that_one_disk_takes_for_the_same_clash() -> None:
    """The second would overwrite the first, on a node whose disk folds capitals."""
    assert clashes(["Config.json", "config.json", "x"]) == [
        "'Config.json' and 'config.json' differ only in capitals"
    ]


def test_a_file_cannot_be_a_folder() -> None:
    """A bucket can hold both, a disk cannot."""
    assert clashes(["a", "a/b"]) == ["'a' is a file, and the folder of 'a/b'"]


def test_missing_shards_are_named() -> None:
    """An upload that was broken off leaves the last ones out."""
    assert missing_shards(SHARDS) == []
    assert missing_shards([*SHARDS[:4], *SHARDS[6:]]) == SHARDS[4:6]


def test_a_hostile_count_of_shards_costs_nothing() -> None:
    """One name may speak of 999,999 others."""
    assert missing_shards(["m-00001-of-999999.bin"]) == ["m-*-of-999999.bin"]
