"""Following the engine while it runs."""

from __future__ import annotations

import json
from pathlib import Path

from infra.provision.progress import Progress, Tail, Watch


def event(kind: str, operation: str, name: str) -> str:
    urn = f"urn:pulumi:s::p::kubernetes:core/v1:Service::{name}"
    metadata = {"op": operation, "urn": urn, "type": "kubernetes:core/v1:Service"}
    return json.dumps({kind: {"metadata": metadata}})


class Heard:
    """Who is told."""

    def __init__(self) -> None:
        self.steps: list[Progress] = []

    def progress(self, step: Progress) -> None:
        self.steps.append(step)

    def note(self, text: str) -> None:
        raise AssertionError(text)


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """The engine writes while we read."""
    file = tmp_path / "events"
    tail = Tail(file)
    assert list(tail.lines()) == []  # not there yet
    file.write_text('{"a": 1}\n{"b"')
    assert list(tail.lines()) == ['{"a": 1}']
    with file.open("a") as more:
        more.write(": 2}\n")
    assert list(tail.lines()) == ['{"b": 2}']


def test_each_step_is_told_with_its_time(tmp_path: Path) -> None:
    """What failed as well; what stays the same is not worth a line."""
    file, heard, now = tmp_path / "events", Heard(), [10.0]
    watch = Watch(stack="s", tail=Tail(file), reporter=heard, clock=lambda: now[0])
    lines = [
        event("resourcePreEvent", "same", "Service/k3/same"),
        event("resourcePreEvent", "update", "Service/k3/a"),
        event("resourcePreEvent", "create", "Service/k3/b"),
        "not an event",
    ]
    file.write_text("\n".join(lines) + "\n")
    watch()
    now[0] = 12.5
    with file.open("a") as more:
        more.write(event("resOutputsEvent", "update", "Service/k3/a") + "\n")
        more.write(event("resOpFailedEvent", "create", "Service/k3/b") + "\n")
    watch()
    assert [(step.state, step.name, step.seconds) for step in heard.steps] == [
        ("begun", "Service/k3/a", 0.0),
        ("begun", "Service/k3/b", 0.0),
        ("done", "Service/k3/a", 2.5),
        ("failed", "Service/k3/b", 2.5),
    ]
