"""Know all formats: find out which a file has, and read a file or folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigError
from loadtest.replay.agentic_mooncake import AgenticMooncakeReader
from loadtest.replay.agentx import AgentXReader
from loadtest.replay.aiperf import AIPerfReader
from loadtest.replay.aiperf_inputs import AIPerfInputsReader
from loadtest.replay.dynamo_requests import DynamoRequestsReader
from loadtest.replay.files import (
    BREATH_ITEMS,
    breathe,
    first_entry,
    list_files,
    read_entries,
    refusal,
)
from loadtest.replay.mooncake import MooncakeReader
from loadtest.replay.otel import OtelReader
from loadtest.replay.own_requests import OwnRequestsReader
from loadtest.replay.reading import Reader, Rules
from loadtest.replay.recording import MAX_CALLS, MAX_UNITS, Trace

READERS: Sequence[Reader] = (
    AgentXReader(),
    OwnRequestsReader(),
    DynamoRequestsReader(),
    AgenticMooncakeReader(),
    MooncakeReader(),
    AIPerfReader(),
    AIPerfInputsReader(),
    OtelReader(),
)
"""In the order in which they are asked whether a file is theirs."""


@dataclass(frozen=True, slots=True)
class Source:
    """Name what to read: a file or folder, and its format; None = find out."""

    path: Path
    format: str | None = None


def parse_source(text: str) -> Source:
    """Read `PATH` or `FORMAT:PATH`; a path may hold colons where no format's name leads it."""
    head, colon, rest = text.partition(":")
    if colon and head in _names():
        return Source(Path(rest), head)
    return Source(Path(text))


def load_traces(source: Source, rules: Rules | None = None) -> list[Trace]:
    """Read all sessions of a file or folder; raises ConfigError that names the place of a fault."""
    rules = rules or Rules()
    files = list_files(source.path)
    reader = _reader(source, files)
    entries = read_entries(files, may_be_cut=reader.may_be_cut)
    traces = list(_bounded(source.path, reader.traces(entries, rules), rules))
    if not traces:
        fix = f"Give a file with sessions in the format {reader.name}"
        raise refusal(source.path, None, "", "holds no session", fix)
    return traces


def _names() -> list[str]:
    return [reader.name for reader in READERS]


def _reader(source: Source, files: Sequence[Path]) -> Reader:
    """Find the one reader of all files that hold anything."""
    if source.format is not None:
        return next(reader for reader in READERS if reader.name == source.format)
    found: tuple[Reader, Path] | None = None
    for file in files:
        reader = _claimant(file)
        if reader is None:
            continue
        if found is not None and reader is not found[0]:
            what = f"is {reader.name}, but {found[1].name} is {found[0].name}"
            fix = "Give each format a folder of its own, or name one: trace:FORMAT:PATH"
            raise refusal(file, None, "", what, fix)
        found = (reader, file)
    if found is None:
        fix = "Give a file with recorded sessions"
        raise refusal(source.path, None, "", "is empty", fix)
    return found[0]


def _claimant(file: Path) -> Reader | None:
    entry = first_entry(file)
    if entry is None:
        return None
    for reader in READERS:
        if reader.claims(entry.data):
            return reader
    keys = ", ".join(sorted(entry.data)[:6]) or "no keys"
    what = f"is of no known format (it starts with an object of {keys:.200})"
    fix = f"Give a recording, or name its format: trace:FORMAT:PATH with {', '.join(_names())}"
    raise refusal(file, entry.line, "", what, fix)


def _bounded(path: Path, traces: Iterator[Trace], rules: Rules) -> Iterator[Trace]:
    """Stop at the asked number of sessions, and before memory ends."""
    calls = units = 0
    for number, trace in enumerate(traces, start=1):
        calls += len(trace.calls)
        units += sum(len(call.blocks) + len(call.parts) for call in trace.calls)
        if calls > MAX_CALLS or units > MAX_UNITS:
            raise too_large(path)
        yield trace
        if not number % BREATH_ITEMS:
            breathe()
        if number == rules.options.max_sessions:
            return


def too_large(path: Path) -> ConfigError:
    """Say that a set of recordings would not fit into memory."""
    what = f"holds more than {MAX_CALLS} calls or {MAX_UNITS} block ids"
    return refusal(path, None, "", what, "Give a part of it, or lower replay.max_sessions")
