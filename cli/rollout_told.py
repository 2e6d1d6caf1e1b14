"""Tell how a rollout goes and how it came out: lines for people, JSON and events for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import click

from cli.output import print_json, print_line
from cli.progress import TerminalProgress
from cli.rollout_status import TYPED, status_json
from cli.wiring import WEBHOOK, secret_webhook
from fleet.errors import EXIT_GO, EXIT_NO_GO, ConfigError
from fleet.rollout.record import Began, Ended
from fleet.rollout.state import Do, Over, Wait
from infra.rollout.journal import Journal
from infra.rollout.webhook import Send, require_address, webhook

Say = Callable[[Began | Ended, Do], None]


@contextmanager
def telling(events: Path | None) -> Iterator[Say]:
    """Make one line per phase on stderr, and one JSON object per event in a file."""
    say = _progress()
    if events is None:
        yield say
        return
    lost = False
    with _appended(events) as file:

        def both(entry: Began | Ended, action: Do) -> None:
            nonlocal lost
            try:
                if not lost:
                    file.write(_line(entry, action))
            except OSError as error:  # who reads it must not end who drives
                lost = True
                why = f"{error.strerror}; the rollout goes on without it"
                click.echo(f"--events {events}: {why}", err=True)
            say(entry, action)

        yield both


def require_tellable(events: Path | None) -> None:
    """Raise ConfigError where events, or the webhook of the environment, cannot be told to."""
    if events is not None:
        _appended(events).close()
    if (url := secret_webhook()) is not None:
        require_address(url, WEBHOOK)


class Notices:
    """What a webhook is told: what people have to know or do."""

    def __init__(self, fleet: str, journal: Journal, send: Send) -> None:
        self._fleet, self._journal, self._send = fleet, journal, send

    def phase(self, entry: Began | Ended, action: Do) -> None:
        """Tell of a phase that did not go well."""
        if isinstance(entry, Ended) and entry.outcome != "ok":
            replicas = list(action.step.names)
            self._tell(entry.outcome, entry.why, phase=entry.phase, replicas=replicas)

    def came(self, came: Wait | Over | None) -> None:
        """Tell how the driver ended."""
        if isinstance(came, Wait):
            self._tell(self._journal.state().status, came.why)
        elif came is not None:
            self._tell(came.status, "")

    def _tell(self, event: str, why: str, **more: object) -> None:
        started = self._journal.state().started
        number = int(self._journal.path.stem)
        text = f"{self._fleet}: rollout {number}, {started.old} -> {started.new}: {event}"
        about = {"fleet": self._fleet, "rollout": number, "old": started.old, "new": started.new}
        said = f"{text}: {why}" if why else text
        self._send({**about, "event": event, "why": why, **more, "text": said})


@contextmanager
def notices(fleet: str, journal: Journal, say: Callable[[str], None]) -> Iterator[Notices]:
    """Tell the webhook of the environment, or else of the strategy, while the block runs."""
    url = secret_webhook()
    if url is not None:
        require_address(url, WEBHOOK)
    elif url := journal.state().started.webhook:
        require_address(url, "strategy: webhook")
    with webhook(url, say) as send:
        yield Notices(fleet, journal, send)


def told(journal: Journal, came: Wait | Over, *, good: str, output: str) -> int:
    """Say how it came out; the exit code says whether as wanted."""
    state = journal.state()
    if output == "json":
        print_json(status_json(journal, state))
    elif isinstance(came, Wait):
        print_line(f"{state.status}: {came.why}")
        click.echo("ways on: " + "; ".join(TYPED[way] for way in came.ways))
    else:
        click.echo(f"{came.status}: {state.started.old} -> {state.started.new}")
    return EXIT_GO if isinstance(came, Over) and came.status == good else EXIT_NO_GO


def _appended(events: Path) -> FileIO:
    try:
        return events.open("ab", buffering=0)
    except OSError as error:
        raise ConfigError(
            f"--events {events}: cannot be written: {error.strerror}. Name another file."
        ) from error


def _line(entry: Began | Ended, action: Do) -> bytes:
    event = {
        **entry.model_dump(mode="json", exclude_none=True),
        "wave": action.step.wave,
        "replicas": [place.replica for place in action.step.places],
        **({"shared": action.step.shared} if action.step.shared else {}),
        "release": action.target,
    }
    return json.dumps(event).encode() + b"\n"


def _progress() -> Say:
    progress = TerminalProgress(sys.stderr)
    began_s = 0.0

    def say(entry: Began | Ended, action: Do) -> None:
        nonlocal began_s
        replicas = ", ".join(action.step.names)
        if isinstance(entry, Began):
            began_s = entry.at_s
            progress.step(f"{entry.phase} {replicas}")
            return
        mark = {"ok": "ok", "failed": "failed", "inconclusive": "skipped"}[entry.outcome]
        detail = f"{replicas} {entry.why}".strip()
        progress.done(entry.phase, entry.at_s - began_s, mark, detail)  # type: ignore[arg-type]

    return say
