"""Claims about each format's reader, as cases: a file, and what it gives or how it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.errors import EXIT_CONFIG, ConfigError
from loadtest.replay.formats import READERS, Source, load_traces
from loadtest.replay.options import ReplayOptions
from loadtest.replay.reading import Rules
from loadtest.replay.recording import Call, Trace

CASES = Path(__file__).parents[2] / "cases" / "replay"


def cases(kind: str) -> list[Any]:
    return list(_cases(kind))


def _cases(kind: str) -> Iterator[Any]:
    for file in sorted(CASES.glob("*.yaml")):
        for case in yaml.safe_load(file.read_text(encoding="utf-8")):
            if kind in case:
                yield pytest.param(case, id=f"{file.stem}: {case['case']}")


def write(folder: Path, case: dict[str, Any]) -> Path:
    """Write the case's file: objects as lines, or text as it is."""
    path = folder / "trace.jsonl"
    text = case.get("text")
    if text is None:
        text = "".join(json.dumps(line) + "\n" for line in case["lines"])
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, case: dict[str, Any]) -> list[Trace]:
    rules = Rules(
        options=ReplayOptions.model_validate(case.get("options", {})),
        count=lambda text: len(text.split()),
    )
    return load_traces(Source(write(folder, case), case.get("format")), rules)


def shown(trace: Trace, call: Call) -> list[Any]:
    """Write a call as the cases do: what it is, and what it adds to what it keeps."""
    added: list[Any] = [f"{part.role} {part.tokens}" for part in call.parts]
    if trace.block_size:
        added = list(call.blocks)
        if call.tail_id is not None:
            added.append(f"part of {call.tail_id}")
    times = [round(call.at_s, 3), round(call.gap_s, 3)]
    return [
        call.agent,
        *times,
        call.input_tokens,
        call.output_tokens,
        "tool" if call.after_tool else "user",
        call.keep if call.base is None else f"{call.keep} of {call.base or 'the session'}",
        *added,
    ]


@pytest.mark.parametrize("case", cases("sessions"))
def test_a_file_gives_these_sessions(tmp_path: Path, case: dict[str, Any]) -> None:
    """Name: calls, each with agent, time, pause, lengths, cause, what is kept and what added."""
    found = {t.name: [shown(t, call) for call in t.calls] for t in load(tmp_path, case)}
    assert found == case["sessions"]


@pytest.mark.parametrize("case", cases("parents"))
def test_sub_agents_have_these_parents(tmp_path: Path, case: dict[str, Any]) -> None:
    """The router is told whose child a session is."""
    found = {t.name: dict(t.parents) for t in load(tmp_path, case) if t.parents}
    assert found == case["parents"]


@pytest.mark.parametrize("case", cases("refused"))
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, case: dict[str, Any]) -> None:
    """A user's file may come from anywhere: file, line, field, what, and what to do."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, case)
    assert caught.value.exit_code == EXIT_CONFIG
    assert str(caught.value).startswith(f"{tmp_path}/trace.jsonl{case['refused']}")
    problem = caught.value.problems[0]
    assert problem.fix
    assert len(str(caught.value).splitlines()) == 1


def test_every_format_has_cases_of_both_kinds() -> None:
    """A reader without them would be untested."""
    names = {reader.name for reader in READERS}
    for kind in ("sessions", "refused"):
        files = {case.id.partition(":")[0] for case in cases(kind)}
        assert files >= names
