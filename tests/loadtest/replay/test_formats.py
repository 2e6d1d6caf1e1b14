"""Claims about finding the format, and about files and folders as such."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from loadtest.replay import files
from loadtest.replay.formats import Source, load_traces, parse_source
from loadtest.replay.options import ReplayOptions
from loadtest.replay.reading import Rules

SESSION = {"block_size": 64, "requests": [{"t": 0, "in": 64, "out": 7, "hash_ids": [1]}]}
REQUEST = {"timestamp": 0, "input_length": 5, "output_length": 6}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def refused(source: Source) -> str:
    with pytest.raises(ConfigError) as caught:
        load_traces(source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a/b.json", Source(Path("a/b.json"))),
        ("mooncake:a/b", Source(Path("a/b"), "mooncake")),
        ("otel:C:/x", Source(Path("C:/x"), "otel")),
        ("runs/12:30/requests.jsonl", Source(Path("runs/12:30/requests.jsonl"))),
    ],
)
def test_a_source_may_name_its_format(text: str, source: Source) -> None:
    """What follows `trace:`; a colon in a path is no format."""
    assert parse_source(text) == source


def test_the_format_is_found_by_content(tmp_path: Path) -> None:
    """A name says little: all of these are .json or .jsonl."""
    write(tmp_path / "x.json", REQUEST)
    assert [trace.scope for trace in load_traces(Source(tmp_path / "x.json"))] == ["set"]
    write(tmp_path / "x.json", {"id": "a", **SESSION})
    assert [trace.scope for trace in load_traces(Source(tmp_path / "x.json"))] == ["session"]


def test_a_folder_is_read_in_order_of_name(tmp_path: Path) -> None:
    """The order decides which session plays which recording, so it must not vary."""
    for name in ("b.json", "a.jsonl"):
        write(tmp_path / name, {"id": name, **SESSION})
    write(tmp_path / "notes.txt", "no recording")
    assert [trace.name for trace in load_traces(Source(tmp_path))] == ["a.jsonl", "b.json"]


def test_files_of_a_folder_may_be_one_trace(tmp_path: Path) -> None:
    """Dynamo rolls its files over: a session may go on in the next."""
    write(tmp_path / "a.jsonl", {"session_id": "s", **REQUEST})
    write(tmp_path / "b.jsonl", {"session_id": "s", **REQUEST, "timestamp": 1})
    (trace,) = load_traces(Source(tmp_path))
    assert len(trace.calls) == 2


def test_two_formats_in_a_folder_are_refused(tmp_path: Path) -> None:
    """Which of them was meant?"""
    write(tmp_path / "a.json", {"id": "a", **SESSION})
    write(tmp_path / "b.json", REQUEST)
    message = refused(Source(tmp_path))
    assert message.startswith(f"{tmp_path}/b.json: is mooncake, but a.json is agentx.")


def test_an_empty_file_beside_others_is_none(tmp_path: Path) -> None:
    """A recorder that was just started."""
    write(tmp_path / "a.json")
    write(tmp_path / "b.json", REQUEST)
    assert len(load_traces(Source(tmp_path))) == 1


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (gzip.compress(b"{}" * 1000, mtime=0), "is compressed (gzip). Unpack it first."),
        (b"PK\x03\x04", "is compressed (zip). Unpack it first."),
        (b"\x28\xb5\x2f\xfd", "is compressed (zstd). Unpack it first."),
        (b"\xff\xfe{\x00", "is UTF-16. Save it as UTF-8."),
        (b"", "is empty. Give a file with recorded sessions."),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    """Unpacking is the user's: a small file may hold more than the machine has memory."""
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert refused(Source(path)) == f"{path}: {what}"


def test_a_line_without_end_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are bounded, however long the file is."""
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    path = write(tmp_path / "a.jsonl", REQUEST, {**REQUEST, "x": "x" * (1 << 20)})
    assert refused(Source(path)).startswith(f"{path}:2: the line is longer than 1 MiB.")
    path.write_text('{\n"x": "' + "x" * (1 << 20), encoding="utf-8")
    assert "is one JSON document larger than 1 MiB" in refused(Source(path))


def test_others_may_run_while_a_large_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that blocks for three seconds is lost to its master."""
    pauses: list[float] = []
    monkeypatch.setattr(files, "sleep", pauses.append)
    load_traces(Source(write(tmp_path / "a.jsonl", *[{**REQUEST, "x": "x" * 1000}] * 5000)))
    assert len(pauses) >= 5


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The most common mistake."""
    assert "No such file" in refused(Source(tmp_path / "none.json"))
    assert "cannot be read" in refused(Source(Path("a\0b")))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """It would be a load test without a load."""
    assert "the folder holds no" in refused(Source(tmp_path))


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """It would hang, or be empty for the second worker."""
    os.mkfifo(tmp_path / "a.json")
    assert "is not a regular file" in refused(Source(tmp_path / "a.json"))


def test_reading_stops_after_the_asked_sessions(tmp_path: Path) -> None:
    """Else the first ten sessions of a large file would cost the whole file."""
    path = write(tmp_path / "a.jsonl", {"id": "a", **SESSION}, {"id": "b"})
    rules = Rules(options=ReplayOptions(max_sessions=1))
    assert [trace.name for trace in load_traces(Source(path), rules)] == ["a"]


_READ = """
import resource, sys
from pathlib import Path
from loadtest.replay.formats import Source, load_traces
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
traces = load_traces(Source(Path(sys.argv[1])))
calls = sum(len(trace.calls) for trace in traces)
print(calls, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 // calls)
"""


def test_a_hundred_thousand_requests_stay_small(tmp_path: Path) -> None:
    """A million of them shall fit into a worker: at most 2 KiB each with 24 ids, file included."""
    path = tmp_path / "a.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(100_000):
            ids = [number // 8 * 16 + place for place in range(22)] + [10**7 + number] * 2
            row = {"timestamp": number, "input_length": 12_200, "output_length": 9}
            file.write(json.dumps({**row, "hash_ids": ids}) + "\n")
    command = [sys.executable, "-c", _READ, str(path)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    calls, bytes_each = map(int, run.stdout.split())
    assert calls == 100_000
    assert bytes_each <= 2048
