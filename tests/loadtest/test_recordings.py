"""Claims about reading recorded sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ConfigError
from loadtest.recordings import load_traces

CALL = {"t": 0.0, "type": "n", "in": 130, "out": 7, "hash_ids": [1, 2], "api_time": 1.0}
TRACE: dict[str, Any] = {
    "id": "t1",
    "block_size": 64,
    "tool_tokens": 64,
    "system_tokens": 63,
    "requests": [CALL],
}


def write(folder: Path, name: str = "a.json", **changes: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps({**TRACE, **changes}), encoding="utf-8")
    return path


def test_only_whole_blocks_are_shared(tmp_path: Path) -> None:
    """127 tokens of tools and system prompt are one block of 64 and a mixed one."""
    assert load_traces(write(tmp_path))[0].system_ids == (1,)


def test_a_folder_is_read_in_order_of_name(tmp_path: Path) -> None:
    """The order decides which session plays which recording, so it must not vary."""
    for name in ("b.json", "a.json"):
        write(tmp_path, name, id=name)
    assert [trace.name for trace in load_traces(tmp_path)] == ["a.json", "b.json"]


def test_subagents_are_sorted_into_their_parents_time(tmp_path: Path) -> None:
    """A sub-agent's times count from its own start."""
    child = {"t": 5.0, "type": "subagent", "requests": [{**CALL, "t": 1.0}]}
    calls = load_traces(write(tmp_path, requests=[CALL, child, {**CALL, "t": 5.5}]))[0].calls
    assert [(agent, call.t) for agent, call in calls] == [("", 0.0), ("", 5.5), ("1", 6.0)]


def bad(**changes: Any) -> str:
    return json.dumps({**TRACE, **changes})


def bad_call(**changes: Any) -> str:
    return bad(requests=[CALL, {**CALL, **changes}])


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("{", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("[]", "is no JSON object"),
        (bad(block_size=0), "block_size"),
        (bad(block_size="64"), "block_size"),
        (bad(id=None), "id"),
        (bad(requests=None), "requests"),
        (bad(requests=[7]), "requests"),
        (bad(requests=[]), "holds no call"),
        (bad_call(t=-1), "requests[1].t"),
        (bad_call(t=1e300), "requests[1].t"),
        (bad_call(**{"in": "many"}), "requests[1].in"),
        (bad_call(out=None), "requests[1].out"),
        (bad_call(hash_ids=[1, "x"]), "requests[1].hash_ids.1"),
        (bad_call(type="subagent", requests=[{**CALL, "t": True}]), "requests[1].requests[0].t"),
        (
            bad(block_size=65_536, requests=[{**CALL, "hash_ids": [1] * 257}]),
            "requests[0].hash_ids",
        ),
    ],
)
def test_a_bad_recording_is_refused_with_its_place(
    tmp_path: Path, content: str, place: str
) -> None:
    """A user's file may come from anywhere; the message must lead to the fault."""
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_traces(path)
    assert "bad.json" in str(caught.value)
    assert place in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The most common mistake."""
    with pytest.raises(ConfigError, match="No such file"):
        load_traces(tmp_path / "none.json")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """It would be a load test without a load."""
    with pytest.raises(ConfigError, match="the folder holds no"):
        load_traces(tmp_path)
