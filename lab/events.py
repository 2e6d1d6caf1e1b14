"""Record what happens to the lab's pods, so that a report can tell lost from recovered."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.pods import REPLICA_LABEL, PodView

EVENTS_FILE = "events.jsonl"
PROCESS_ENDED = "process ended"  # how the detail of such a loss begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a pod; `at` is in seconds since the epoch."""

    at: float
    region: str
    pod: str
    replica: str | None
    what: str
    detail: str


class EventLog:
    """Appends events to a file, one JSON object a line; safe for several threads."""

    def __init__(self, path: Path, region: str, clock: Callable[[], float]) -> None:
        self._path = path
        self._region = region
        self._clock = clock
        self._lock = threading.Lock()

    def add(self, pod: PodView, what: str, detail: str = "") -> None:
        """Append one event."""
        event = Event(
            at=self._clock(),
            region=self._region,
            pod=pod.name,
            replica=pod.labels.get(REPLICA_LABEL),
            what=what,
            detail=detail,
        )
        line = json.dumps(asdict(event)) + "\n"
        with self._lock, self._path.open("a") as file:
            file.write(line)


def read_events(path: Path) -> tuple[Event, ...]:
    """Read the whole lines of an event file; one that is being written is left out."""
    if not path.exists():
        return ()
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    return tuple(Event(**json.loads(line)) for line in whole.splitlines())


def often_ended(events: tuple[Event, ...], limit: int) -> Event | None:
    """Return the last end of a process that ended by itself so often, if there is one."""
    ends: Counter[str] = Counter()
    for event in events:
        if event.what == "lost" and event.detail.startswith(PROCESS_ENDED):
            ends[event.pod] += 1
            if ends[event.pod] >= limit:
                return event
    return None


def outages(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Reduce pod events to what an operator asks: what was lost, what came back.

    A replica, or a pod that is none (a frontend, a gateway), is lost when its process stops
    serving without having been asked to, and recovered when it is ready again.
    """
    lost: set[str] = set()
    told: list[Event] = []
    for event in sorted(events, key=lambda event: event.at):
        name = event.replica or event.pod
        if event.what == "lost" and name not in lost:
            lost.add(name)
            told.append(event)
        elif event.what == "ready" and name in lost:
            lost.remove(name)
            told.append(replace(event, what="recovered"))
    return tuple(told)
