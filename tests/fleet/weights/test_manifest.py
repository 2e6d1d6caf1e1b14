"""The manifest: what it is accepted with, and what it is refused for."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.weights.manifest import MAX_BYTES, FileEntry, Manifest, make_manifest, read_manifest
from fleet.weights.needs import WeightSet
from fleet.weights.notes import Notes, read_notes

WEIGHTS = WeightSet(repo="moonshotai/Kimi-K3", revision="9f62e4e9")
NAMES = st.from_regex(r"[a-z]{1,8}\.bin", fullmatch=True)
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)


def entry(name: str, size: int = 7, sha256: str = "a" * 64) -> FileEntry:
    return FileEntry(name=name, bytes=size, sha256=sha256, crc64nvme="c" * 16)


def manifest(*names: str) -> Manifest:
    return make_manifest(WEIGHTS, {name: entry(name) for name in names or ("a.bin", "b.bin")})


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(manifest().to_bytes()) | changes).encode()


def faults(content: bytes, pinned: str | None = None) -> str:
    found, problems = read_manifest(content, "s3://b/r", WEIGHTS, pinned)
    assert (found is None) == bool(problems)
    return "\n".join(map(str, problems))


@given(st.dictionaries(NAMES, st.tuples(st.integers(0, 10**13), HEX), min_size=1))
def test_what_is_written_is_read_back(files: dict[str, tuple[int, str]]) -> None:
    """Byte for byte, so that two of the same content have the same digest."""
    made = make_manifest(WEIGHTS, {name: entry(name, *of) for name, of in files.items()})
    found, problems = read_manifest(made.to_bytes(), "s3://b/r", WEIGHTS, made.digest)
    assert (found, problems) == (made, [])
    assert found is not None
    assert found.to_bytes() == made.to_bytes()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(changed(repo="evil/Model"), "repo: is of another model", id="model"),
        pytest.param(changed(revision="0000"), "revision: is of another model", id="revision"),
        pytest.param(changed(content_sha256="0" * 64), "damaged or edited", id="digest"),
        pytest.param(changed(extra=1), "extra: unknown key", id="key"),
        pytest.param(changed(files=[]), "files:", id="empty"),
        pytest.param(manifest().to_bytes()[:-9], "is no JSON", id="cut"),
        pytest.param(b"\xff\xfe", "is not UTF-8", id="binary"),
        pytest.param(b"[]", "expected a mapping", id="list"),
    ],
)
def test_a_wrong_manifest_is_refused_by_what_is_wrong(content: bytes, why: str) -> None:
    """A person has to know whether to look for damage, or for somebody."""
    assert why in faults(content)


@pytest.mark.parametrize(
    ("name", "why"),
    [("../a", "leads out"), ("/a", "leads out"), ("a\\b", "backslash"), ("ä", "outside ASCII")],
)
def test_path_tricks_in_a_shard_list_are_refused(name: str, why: str) -> None:
    """Every name becomes a path on a node, as root."""
    item = {"name": name, "bytes": 1, "sha256": "a" * 64, "crc64nvme": "c" * 16}
    assert why in faults(changed(files=[item]))


def test_names_that_clash_are_refused() -> None:
    """On a disk that folds capitals one of them is lost."""
    items = [entry("A.bin").model_dump(), entry("a.bin").model_dump()]
    assert "differ only in capitals" in faults(changed(files=items))


def test_a_shard_that_the_others_speak_of_must_be_there() -> None:
    """A manifest of 95 shards of 96 is none."""
    items = [entry("m-00001-of-00002.bin").model_dump()]
    assert "m-00002-of-00002.bin is not in it" in faults(changed(files=items))


def test_a_pinned_digest_must_be_met() -> None:
    """Whoever may write the bucket could make another consistent manifest."""
    assert "another digest than" in faults(manifest().to_bytes(), "0" * 64)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b'{"a":' + b"9" * 1_000_000 + b"}", "number of 1000000 digits", id="number"),
        pytest.param(b"[" * 1_000_000, "nested too deeply", id="nesting"),
        pytest.param(b'{"a":1,"a":2}', "the key 'a' twice", id="twice"),
        pytest.param(b'{"a":1e999}', "where a whole number belongs", id="float"),
        pytest.param(b'{"a":NaN}', "where a whole number belongs", id="nan"),
        pytest.param(b" " * (MAX_BYTES + 1), "has more than", id="size"),
        pytest.param(b'{"files":[' + b"{}," * 400_000 + b"{}]}", "", id="many"),
    ],
)
def test_hostile_json_costs_little_and_is_named(content: bytes, why: str) -> None:
    """Parsing a million digits takes seconds, and recursion the process."""
    before_s = time.process_time()
    assert why in faults(content)
    assert time.process_time() - before_s < 10  # quadratic would be minutes


def test_damaged_notes_are_no_notes() -> None:
    """They save work; without them it is done again."""
    assert read_notes(b'{"read": {"a": {"etag": 1}}}') == Notes()
    assert read_notes(b"[" * 1000) == Notes()
