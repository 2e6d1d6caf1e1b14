"""Tell how a rollout goes and how it came out: lines for people, JSON and events for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from cli.output import print_json, print_line
from cli.progress import TerminalProgress
from cli.rollout_status import TYPED, status_json
from fleet.errors import EXIT_GO, EXIT_NO_GO, ConfigError
from fleet.rollout.record import Began, Ended
from fleet.rollout.state import Do, Over, Wait, read_state
from infra.rollout.journal import Journal

Say = Callable[[Began | Ended, Do], None]


@contextmanager
def telling(events: Path | None) -> Iterator[Say]:
    """Make one line per phase on stderr, and one JSON object per event in a file."""
    say = _progress()
    if events is None:
        yield say
        return
    try:
        file = events.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--events {events}: cannot be written: {error.strerror}. Name another file."
        ) from error
    with file:

        def both(entry: Began | Ended, action: Do) -> None:
            _write(file, entry, action)
            say(entry, action)

        yield both


def told(journal: Journal, came: Wait | Over, *, good: str, output: str) -> int:
    """Say how it came out; the exit code says whether as wanted."""
    state = read_state(journal.read())
    if output == "json":
        print_json(status_json(journal, state))
    elif isinstance(came, Wait):
        print_line(f"{state.status}: {came.why}")
        click.echo("ways on: " + "; ".join(TYPED[way] for way in came.ways))
    else:
        click.echo(f"{came.status}: {state.started.old} -> {state.started.new}")
    return EXIT_GO if isinstance(came, Over) and came.status == good else EXIT_NO_GO


def _write(file: TextIO, entry: Began | Ended, action: Do) -> None:
    event = {
        **entry.model_dump(mode="json"),
        "wave": action.step.wave,
        "replicas": [place.replica for place in action.step.places],
        "release": action.target,
    }
    file.write(json.dumps(event) + "\n")
    file.flush()


def _progress() -> Say:
    progress = TerminalProgress(sys.stderr)
    began_s = 0.0

    def say(entry: Began | Ended, action: Do) -> None:
        nonlocal began_s
        replicas = ", ".join(place.replica for place in action.step.places)
        if isinstance(entry, Began):
            began_s = entry.at_s
            progress.step(f"{entry.phase} {replicas}")
            return
        mark = {"ok": "ok", "failed": "failed", "inconclusive": "skipped"}[entry.outcome]
        detail = f"{replicas} {entry.why}".strip()
        progress.done(entry.phase, entry.at_s - began_s, mark, detail)  # type: ignore[arg-type]

    return say
