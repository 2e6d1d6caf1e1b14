"""How a file is cut into parts, and how a copy goes on with what is there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.weights.manifest import MAX_FILE_BYTES, FileEntry
from fleet.weights.notes import Begun, Held, Note
from fleet.weights.parts import (
    MAX_PART_BYTES,
    MAX_PARTS,
    MIN_PART_BYTES,
    Check,
    Done,
    Found,
    Send,
    Upload,
    next_step,
    plan_parts,
    stale,
)

RIGHT, WRONG = "a" * 64, "b" * 64
ENTRY = FileEntry(name="a.safetensors", bytes=100, sha256=RIGHT, crc64nvme="c" * 16)
HELD = Held(bytes=100, etag="t1")
SIZES = st.one_of(st.integers(0, 10**6), st.integers(0, MAX_FILE_BYTES))


def found(
    held: Held | None = None, note: Note | None = None, *uploads: Upload, begun: Begun | None = None
) -> Found:
    return Found(held=held, note=note, uploads=uploads, begun=begun)


def note(sha256: str, etag: str = "t1") -> Note:
    return Note(etag=etag, bytes=100, sha256=sha256, crc64nvme="c" * 16)


def upload(id_: str, parts: dict[int, int]) -> Upload:
    return Upload(key="k", id=id_, parts=parts)


@given(SIZES, st.integers(MIN_PART_BYTES, MAX_PART_BYTES))
def test_parts_cover_a_file_once_and_keep_the_limits(size: int, part_bytes: int) -> None:
    """A gap or an overlap is another file; beyond 10,000 parts a store refuses, hours later."""
    parts = plan_parts(size, part_bytes)
    assert [part.number for part in parts] == list(range(1, len(parts) + 1))
    assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == size
    assert len(parts) <= MAX_PARTS
    assert all(MIN_PART_BYTES <= part.bytes <= MAX_PART_BYTES for part in parts[:-1])
    assert parts[-1].bytes <= MAX_PART_BYTES


@given(st.integers(1, 400), st.integers(5, 60), st.data())
def test_what_is_there_and_what_is_missing_make_the_file(
    size: int, part_bytes: int, data: st.DataObject
) -> None:
    """A resumed upload sends each part that is not there, and none that is."""
    entry = ENTRY.model_copy(update={"bytes": size})
    parts = plan_parts(size, part_bytes)
    there = data.draw(st.sets(st.sampled_from(parts)))
    open_ = upload("u", {part.number: part.bytes for part in there})
    step = next_step(entry, found(None, None, open_), "s1", part_bytes)
    assert isinstance(step, Send)
    assert step.upload == "u"
    assert {*step.missing, *there} == set(parts)
    assert not there & set(step.missing)


def test_an_object_that_nobody_has_read_is_checked() -> None:
    """A name and a size prove nothing."""
    assert next_step(ENTRY, found(HELD), "s1", 50) == Check()


def test_a_note_counts_while_the_tag_is_the_same() -> None:
    """Else what somebody put there since would pass as checked."""
    assert next_step(ENTRY, found(HELD, note(RIGHT)), "s1", 50) == Done()
    assert next_step(ENTRY, found(HELD, note(RIGHT, "t0")), "s1", 50) == Check()


def test_an_object_that_was_read_and_is_wrong_is_sent_again() -> None:
    """Checking it once more would find the same."""
    step = next_step(ENTRY, found(HELD, note(WRONG)), "s1", 50)
    assert isinstance(step, Send)
    assert [part.number for part in step.missing] == [1, 2]


def test_an_object_of_another_size_is_sent_again() -> None:
    """Reading it would be a waste."""
    assert isinstance(next_step(ENTRY, found(Held(bytes=99, etag="t1")), "s1", 50), Send)


def test_the_upload_that_has_most_is_gone_on_with() -> None:
    """The others cost storage and are ended."""
    uploads = (upload("u1", {1: 50}), upload("u2", {}), upload("u3", {1: 50, 2: 50}))
    step = next_step(ENTRY, found(None, None, *uploads), "s1", 50)
    assert step == Send(upload="u3", missing=(), useless=("u1", "u2"))


def test_an_upload_that_was_cut_otherwise_is_not_gone_on_with() -> None:
    """Its second part would begin elsewhere."""
    step = next_step(ENTRY, found(None, None, upload("u1", {1: 30})), "s1", 50)
    assert isinstance(step, Send)
    assert (step.upload, step.useless) == (None, ("u1",))


def test_an_upload_from_another_source_is_not_gone_on_with() -> None:
    """Half of the file before and half of the file after a change is neither."""
    begun = Begun(id="u1", source_etag="s0")
    step = next_step(ENTRY, found(None, None, upload("u1", {1: 50}), begun=begun), "s1", 50)
    assert isinstance(step, Send)
    assert step.upload is None


def test_an_upload_is_stale_only_after_its_time() -> None:
    """A young one may be somebody's who works on it now."""
    old, young = upload("old", {}), Upload(key="k", id="young", parts={}, begun_s=950.0)
    assert stale((old, young), now_s=1000.0, older_than_s=100.0) == (old,)
