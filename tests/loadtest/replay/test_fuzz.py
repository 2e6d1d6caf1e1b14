"""Claims about files that are wrong in ways nobody thought of: refused, never a crash."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.errors import ConfigError
from loadtest.prompt.prompts import Frame
from loadtest.prompt.words import Vocabulary
from loadtest.replay.formats import READERS, Source, load_traces
from loadtest.replay.options import ReplayOptions
from loadtest.replay.reading import Rules
from loadtest.replay.recording import Trace
from loadtest.replay.statistics import trace_statistics
from loadtest.replay.traces import Craft, TraceTraffic
from loadtest.traffic.sessions import Scale, Seeds

CASES = Path(__file__).parents[2] / "cases" / "replay"
NAMES = [reader.name for reader in READERS]

each_format = pytest.mark.parametrize("name", NAMES)
fuzz = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

numbers = st.integers(-(2**70), 2**70) | st.integers(-2, 5000) | st.floats()
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(["a", "s", "root"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def samples(name: str) -> list[list[dict[str, Any]]]:
    cases = yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))
    return [case["lines"] for case in cases if "lines" in case]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give every place in a document: the container, and the key or index in it."""
    items: Iterator[Any] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    for key, inner in items:
        yield value, key
        yield from places(inner)


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """Take a good file and change some of its values, leave some out, and cut or pad its text."""
    lines = copy.deepcopy(draw(st.sampled_from(samples(name))))
    for _ in range(draw(st.integers(1, 4))):
        container, key = draw(st.sampled_from(list(places(lines))))
        if isinstance(container, dict) and draw(st.integers(0, 3)) == 0:
            del container[key]
        else:
            container[key] = draw(values)
        if not list(places(lines)):
            break
    text = "".join(json.dumps(line) + "\n" for line in lines).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        cut = draw(st.integers(0, len(text)))
        text = text[:cut] + draw(st.binary(max_size=6)) + text[cut + draw(st.integers(0, 4)) :]
    return text


def read(folder: Path, content: bytes, name: str | None) -> list[Trace]:
    path = folder / "trace.jsonl"
    path.write_bytes(content)
    return load_traces(Source(path, name), Rules(options=ReplayOptions(block_size=None)))


@each_format
@fuzz
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Nothing but ConfigError leaves a reader, and it names the file on one line."""
    content = data.draw(damaged(name))
    try:
        traces = read(tmp_path, content, name)
    except ConfigError as error:
        assert str(error).startswith(str(tmp_path))
        assert len(str(error).splitlines()) == 1
        return
    for trace in traces:
        assert all(call.gap_s >= 0 and call.at_s >= 0 for call in trace.calls)
    figures = trace_statistics(traces)
    assert 0 <= figures.hit <= 1.0001
    assert 0 <= figures.block_hit <= 1


@each_format
@settings(fuzz, max_examples=12)
@given(data=st.data())
def test_what_is_read_can_be_played(
    tmp_path: Path, vocabulary: Vocabulary, frame: Frame, name: str, data: st.DataObject
) -> None:
    """Every prompt can be framed, ends with a user's message and is as long as it was recorded."""
    content = data.draw(damaged(name))
    try:
        traces = read(tmp_path, content, name)
    except ConfigError:
        return
    scale = Scale(tokens=1000.0, time=1.0)
    craft = Craft(vocabulary=vocabulary, scale=scale, seeds=Seeds(seed=1, salt="t"))
    source = TraceTraffic(traces, craft)
    source.shared()
    for number, trace in enumerate(traces):
        for call, step in zip(trace.calls, source.session(number), strict=True):
            assert frame.tokens(step.messages)
            assert step.messages[-1].role == "user"
            words = sum(len(m.content) + len(m.reasoning) for m in step.messages)
            wanted = call.input_tokens / scale.tokens
            assert wanted - 1 - len(step.messages) <= words <= wanted + 1 + 2 * len(step.messages)


@settings(fuzz, max_examples=100)
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """The format is found by content, so any content may come."""
    try:
        read(tmp_path, content, None)
    except ConfigError as error:
        assert str(error).startswith(str(tmp_path))
