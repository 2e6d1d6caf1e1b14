"""A record's file: read once, whatever other processes do to it."""

from __future__ import annotations

import zlib
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_world import World, started

import infra.rollout.record_file as module
from fleet.errors import ConfigError
from fleet.rollout.record import Entry
from fleet.rollout.state import read_state
from infra.rollout.ledger import Packer
from infra.rollout.record_file import RecordFile


def long_record(phases: int) -> list[Entry]:
    world = World(record=[started()])
    for _ in range(phases):
        world.go()
    return world.record


def lines(entries: list[Entry]) -> bytes:
    return b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase of a large fleet would take seconds else."""
    entries = long_record(30)
    path = tmp_path / "0001.jsonl"
    path.write_bytes(lines(entries[:40]))
    record = RecordFile(path)
    assert record.entries() == entries[:40]
    parsed: list[bytes] = []
    real = module._ENTRY.validate_json
    monkeypatch.setattr(
        module,
        "_ENTRY",
        type(
            "Counting", (), {"validate_json": lambda _, line: parsed.append(line) or real(line)}
        )(),
    )
    with path.open("ab") as file:
        file.write(lines(entries[40:42]) + b'{"kind": "beg')
    assert record.entries() == entries[:42]
    assert len(parsed) == 2
    assert record.state() == read_state(entries[:42])


@given(
    cuts=st.lists(st.integers(0, 61), min_size=1, max_size=6),
    other=st.integers(0, 61),
)
def test_it_follows_whatever_the_file_becomes(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], other: int
) -> None:
    """Longer, shorter, another one, gone: what is read is what is there."""
    entries = long_record(30)
    path = tmp_path_factory.mktemp("record") / "0001.jsonl"
    record = RecordFile(path)
    assert record.entries() == []
    for cut in cuts:
        path.write_bytes(lines(entries[:cut]))
        assert record.entries() == entries[:cut]
        if cut:
            assert record.state() == read_state(entries[:cut])
    apart = [entry.model_copy(update={"at_s": 7.0}) for entry in entries[:other]]
    draft = path.with_suffix(".draft")
    draft.write_bytes(lines(apart))
    draft.replace(path)
    assert record.entries() == apart
    path.unlink()
    assert record.entries() == []


def test_a_line_that_is_no_entry_is_named_every_time(tmp_path: Path) -> None:
    """And the second look does not pass it over."""
    path = tmp_path / "0001.jsonl"
    path.write_bytes(lines([started()]) + b"{}\n")
    record = RecordFile(path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"0001\.jsonl:2: is no entry"):
            record.state()


@given(st.lists(st.integers(1, 61), max_size=6))
def test_a_packed_record_is_whole_at_every_length(lengths: list[int]) -> None:
    """It grows by what is new, and starts anew when it went another way."""
    entries = long_record(30)
    packer = Packer()
    for length in lengths:
        packed = packer.pack(entries[:length])
        stored = zlib.decompressobj(wbits=31).decompress(b64decode(packed.data))
        assert stored == lines(entries[:length])
    apart = [entry.model_copy(update={"at_s": 7.0}) for entry in entries]
    stored = zlib.decompressobj(wbits=31).decompress(b64decode(packer.pack(apart).data))
    assert stored == lines(apart)


@pytest.mark.parametrize("at_s", ["1e300", "-1e11", "253402300800"])
def test_what_is_at_no_time_is_no_entry(tmp_path: Path, at_s: str) -> None:
    """The history and the report would end at it, whatever the others are."""
    path = tmp_path / "0001.jsonl"
    first = started().model_dump_json().replace('"at_s":0.0', f'"at_s":{at_s}')
    path.write_text(first + "\n")
    with pytest.raises(ConfigError, match=r"0001\.jsonl:1: is no entry"):
        RecordFile(path).entries()
