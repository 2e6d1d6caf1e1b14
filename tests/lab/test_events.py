"""What happened to pods is told as what happened to replicas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lab_builders import pod

from lab.events import Event, EventLog, often_ended, outages, read_events


def event(at: float, what: str, replica: str | None = "r01-0") -> Event:
    return Event(at=at, region="here", pod="p", replica=replica, what=what, detail="")


def test_a_loss_and_the_next_ready_make_an_outage():
    """A replica that restarts twice before it serves was lost once."""
    told = outages(
        (
            event(1, "ready"),
            event(5, "lost"),
            event(6, "lost"),
            event(9, "ready"),
            event(20, "ready"),
        )
    )
    assert [(e.at, e.what) for e in told] == [(5, "lost"), (9, "recovered")]


def test_a_lost_gateway_is_told_by_its_pod():
    """It costs every session of its region, so the report must not hide it."""
    told = outages((event(1, "lost", None), event(2, "ready", None)))
    assert [(e.pod, e.what) for e in told] == [("p", "lost"), ("p", "recovered")]


def test_events_survive_the_file(tmp_path: Path):
    """The report is written by another process than the one that saw the event."""
    path = tmp_path / "events.jsonl"
    log = EventLog(path, "here", clock=lambda: 7.5)
    log.add(pod("p", labels={"k3fleet.io/replica": "r01-3"}), "lost", "code -9")
    with path.open("a") as file:
        file.write('{"at": 8')  # still being written
    assert read_events(path) == (
        Event(at=7.5, region="here", pod="p", replica="r01-3", what="lost", detail="code -9"),
    )


def ended(pod_name: str, detail: str = "process ended with code 2") -> Event:
    return replace(event(1, "lost"), pod=pod_name, detail=detail)


def test_a_process_that_ends_again_and_again_is_named():
    """A wrong flag does not get better by waiting for five minutes."""
    events = (ended("a"), ended("b"), ended("a"), ended("a", "process ended with code 3"))
    assert often_ended(events, 3) == events[-1]


def test_what_ended_for_another_reason_does_not_count():
    """A group that is made anew, or a probe that fails, is the lab at work."""
    events = (ended("a"), ended("a", "its other pod is gone"), ended("a"), event(2, "ready"))
    assert often_ended(events, 3) is None
