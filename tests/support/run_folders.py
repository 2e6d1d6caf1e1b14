"""Make run folders as a load test leaves them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.results.records import GENERATOR_FILE, REQUESTS_FILE, Generator, Record
from loadtest.results.run_facts import RunFacts, write_facts
from loadtest.settings import LoadSettings, write_settings

HOSTILE = '</script><img src=x onerror=alert(1)>"&\x1b[2J\u202e=HYPERLINK("x")'
RECORD = Record(
    region="us",
    session="salt-1",
    turn=1,
    kind="first",
    sent_s=0.0,
    due_s=None,
    prompt_tokens=1000,
    output_tokens=11,
    cached_tokens=512,
    attainable_tokens=512,
    predicted_prompt_tokens=1000,
    ttft_s=0.1,
    e2e_s=0.3,
    chunks=11,
    gap_p50_ms=20.0,
    gap_max_ms=30.0,
    worker="w0",
    status=200,
    error=None,
)
GENERATOR = Generator(
    started_at="2026-01-01T00:00:00.000+00:00",
    duration_s=60.0,
    users=2,
    sessions_started=20,
    sessions_finished=20,
    calls_unfinished=0,
    cpu_share=0.2,
    machine_cpu_share=0.5,
    lag_p50_ms=0.5,
    lag_p99_ms=5.0,
    gap_histogram={"le_ms": [10.0, 20.0], "count": [1.0, 8.0]},
    seed=1,
    token_scale=16.0,
    time_scale=60.0,
    dataset="interactive_agent",
    versions={},
)


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
