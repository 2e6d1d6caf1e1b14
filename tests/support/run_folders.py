"""Make run folders as a load test leaves them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.records import GENERATOR_FILE, REQUESTS_FILE, Generator, Record
from loadtest.run_facts import RunFacts, write_facts
from loadtest.settings import LoadSettings, write_settings

HOSTILE = '</script><img src=x onerror=alert(1)>"&\x1b[2J\u202e=HYPERLINK("x")'


def make_settings(folder: Path, **changes: Any) -> LoadSettings:
    """Give settings that could have made the run in a folder."""
    fields: Mapping[str, Any] = {
        "targets": {"us": "http://127.0.0.1:1"},
        "tokenizer_dir": folder,
        "users": 2,
        "out_dir": folder,
    }
    return LoadSettings.model_validate({**fields, **changes})


def make_run(
    folder: Path,
    records: Iterable[Record],
    generator: Generator | None,
    facts: RunFacts | None = None,
    **settings: Any,
) -> Path:
    """Write the files of a run; without a generator it was killed."""
    write_settings(make_settings(folder, **settings))
    write_facts(facts or RunFacts(name="demo"), folder)
    write_part(folder, records, generator)
    return folder


def write_part(folder: Path, records: Iterable[Record], generator: Generator | None) -> None:
    """Write what one process of a generator leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REQUESTS_FILE).write_bytes(b"".join(record.line() for record in records))
    if generator is not None:
        (folder / GENERATOR_FILE).write_text(generator.text())


def sessions_of(record: Record, count: int, turns: int = 3, **changes: Any) -> list[Record]:
    """Give records of some sessions, a step a second."""
    return [
        replace(record, session=f"k3-salt-{number}", turn=turn, sent_s=float(turn), **changes)
        for number in range(count)
        for turn in range(1, turns + 1)
    ]


def report_of(folder: Path) -> dict[str, Any]:
    """Read the report that a command wrote."""
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found
