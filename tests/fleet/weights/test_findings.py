"""What is wrong with a folder has a name: missing, extra, truncated, corrupted, swapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.weights.findings import Seen, compare, unread
from fleet.weights.manifest import FileEntry, make_manifest
from fleet.weights.needs import WeightSet
from fleet.weights.notes import Held, Note

NAMES = [f"{letter}.bin" for letter in "abcdef"]


def digest(content: str) -> tuple[str, str]:
    return content[0] * 64, content[0] * 16


def entry(name: str) -> FileEntry:
    sha256, crc = digest(name)
    return FileEntry(name=name, bytes=10, sha256=sha256, crc64nvme=crc)


MANIFEST = make_manifest(WeightSet(repo="r", revision="1"), {name: entry(name) for name in NAMES})


def seen(content: str, size: int = 10, *, deep: bool = True) -> Seen:
    sha256, crc = digest(content)
    held = Held(bytes=size, etag="t")
    if not deep:
        return Seen(held=held, crc64nvme=crc)
    return Seen(held=held, note=Note(etag="t", bytes=size, sha256=sha256, crc64nvme=crc))


@given(st.permutations(NAMES), st.booleans())
def test_every_file_out_of_its_place_is_swapped(order: list[str], deep: bool) -> None:
    """Shards have one size, so only their content tells, and both halves of a swap are named."""
    found = compare(MANIFEST, {n: seen(c, deep=deep) for n, c in zip(NAMES, order, strict=True)})
    moved = {name for name, content in zip(NAMES, order, strict=True) if name != content}
    assert {finding.name for finding in found} == moved
    assert {finding.kind for finding in found} <= {"swapped"}


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        pytest.param(lambda deep: seen("0", deep=deep), "corrupted", id="corrupted"),
        pytest.param(lambda deep: seen("0", 9, deep=deep), "truncated", id="truncated"),
        pytest.param(lambda deep: seen("0", 11, deep=deep), "too-long", id="too long"),
    ],
)
def test_a_changed_file_is_named(change: object, kind: str, deep: bool) -> None:
    """And no other."""
    assert callable(change)
    state = {name: seen(name, deep=deep) for name in NAMES} | {"c.bin": change(deep)}
    assert [(f.name, f.kind) for f in compare(MANIFEST, state)] == [("c.bin", kind)]


def test_missing_and_extra_files_are_named() -> None:
    """A rename is both."""
    state = {name: seen(name) for name in NAMES if name != "b.bin"} | {"z.bin": seen("b")}
    found = [(finding.name, finding.kind) for finding in compare(MANIFEST, state)]
    assert found == [("b.bin", "missing"), ("z.bin", "extra")]


def test_an_old_note_says_nothing_of_a_new_object() -> None:
    """Then only the size speaks, and that is said."""
    old = Note(etag="before", bytes=10, sha256="0" * 64, crc64nvme="0" * 16)
    state = {name: seen(name) for name in NAMES}
    state["a.bin"] = Seen(held=Held(bytes=10, etag="now"), note=old)
    assert compare(MANIFEST, state) == ()
    assert unread(MANIFEST, state) == ("a.bin",)
