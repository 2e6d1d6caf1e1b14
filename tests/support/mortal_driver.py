"""Be `k3fleet` until a chosen point of the code, and die there by SIGKILL, or let Pulumi die.

Used as `python tests/support/mortal_driver.py POINT ARGUMENTS…`. Between two writes are
milliseconds, which a kill from outside hits by luck only; up to the signal this is the real
process. POINT is three words: see `install`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.main import main
from fleet.rollout.record import Entry
from infra import stack_process
from infra.rollout import webhook, working_copy
from infra.rollout.cluster import Cluster
from infra.rollout.journal import Journal
from infra.rollout.lease import RegionLease
from infra.rollout.ledger import Ledger
from infra.rollout.region import SiteRegion
from infra.rollout.shared import SharedRecord
from infra.rollout.site import RegionsSite
from infra.rollout.stack import Stack
from infra.rollout.waiting import Waiter
from infra.stack_process import Command

PATIENCE_S = 600.0  # only ends what hangs
_Hook = Callable[..., None]


def install(kind: str, what: str, where: str) -> None:
    """Arrange for the end.

    `began PHASE`, `ended PHASE`, `asked COMMAND`, `started -`: around the writing of that entry:
    `unwritten`, `one-cluster`, `clusters` (but not the file), `torn` (half of it in the file),
    `written`. `touch PHASE …`: in what the phase does. `resume - …`: while a driver takes over.
    """
    if kind in ("touch", "resume"):
        _TOUCHES[where](what)
    else:
        _record(kind, what, where)


def die(*_about: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def around(
    owner: Any, name: str, *, before: _Hook | None = None, after: _Hook | None = None
) -> None:
    """Do something before or after each call of a function."""
    original = getattr(owner, name)

    def wrapped(*words: Any, **more: Any) -> Any:
        if before:
            before(*words)
        result = original(*words, **more)
        if after:
            after(*words)
        return result

    setattr(owner, name, wrapped)


def _record(kind: str, what: str, where: str) -> None:
    def meant(entry: Entry) -> bool:
        named = getattr(entry, "phase", getattr(entry, "command", "-"))
        return (entry.kind, named) == (kind, what)

    def if_meant(entry: Entry) -> None:
        if meant(entry):
            die()

    def torn(journal: Journal, entry: Entry, *_needed: object) -> None:
        if not meant(entry):
            return
        assert journal._shared is not None
        journal._shared.write([*journal.read(), entry], ())
        with journal.path.open("ab") as file:
            file.write(entry.model_dump_json().encode()[:20])
        die()

    match where:
        case "unwritten":
            around(Journal, "append", before=lambda _journal, entry, *_needed: if_meant(entry))
        case "one-cluster":
            around(
                Ledger, "write", after=lambda _ledger, _number, _before, r: if_meant(r.entries[-1])
            )
        case "clusters":
            around(SharedRecord, "write", after=lambda _shared, all_, _needed: if_meant(all_[-1]))
        case "torn":
            around(Journal, "append", before=torn)
        case "written":
            around(Journal, "append", after=lambda _journal, entry, *_needed: if_meant(entry))
        case _:
            raise ValueError(where)


def _waiting(phase: str) -> None:
    """Die in the first pause of a phase, or behind its first wait where there was nothing to do."""
    now: list[str] = []
    around(RegionsSite, "do", before=lambda _site, action, _stop: now.append(action.phase))
    until = Waiter.until

    def mortal(waiter: Waiter, missing: Callable[[], str], timeout_s: float) -> object:
        meant = now[-1:] == [phase] and not threading.current_thread().daemon  # as keepers are
        if not meant:
            return until(waiter, missing, timeout_s)
        until(Waiter(clock=waiter.clock, pause=die, stop=waiter.stop), missing, timeout_s)
        return die()

    Waiter.until = mortal  # type: ignore[assignment]


def _in_pulumi(
    command: str, said: str, engine: signal.Signals | None = signal.SIGKILL, *, us: bool = True
) -> None:
    """Send the engine a signal once it has said something, or let it go on; then die, or not."""
    begin = stack_process._start

    def begun(wanted: Command) -> object:
        child = begin(wanted)
        if wanted.argv[1] == command:
            events, deadline = wanted.folder / "events.raw", time.monotonic() + PATIENCE_S
            while not (events.exists() and said in events.read_text(errors="replace")):
                if child.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"pulumi {command} ended and has not said {said}")
                time.sleep(0.002)
            if engine == signal.SIGKILL:
                stack_process._kill_session(child)
            elif engine:
                child.send_signal(engine)
            if us:
                die()
        return child

    stack_process._start = begun  # type: ignore[assignment]


def _replacing(suffix: str) -> None:
    """Die when a new file is whole, and has not taken the old one's place."""

    def about(draft: Path, target: Path) -> None:
        if draft.suffix == ".draft" and Path(target).suffix == suffix:
            die()

    around(Path, "replace", before=about)


def _telling(_phase: str) -> None:
    _in_pulumi("up", BEGUN, us=False)
    webhook._send = die  # type: ignore[assignment]


BEGUN = "preludeEvent"  # nothing was sent to the API server yet
# The engine says so of an object once the API server has it; its own state is written later.
PATCHED = '"resOutputsEvent":{"metadata":{"op":"update"'
_TOUCHES: dict[str, Callable[[str], None]] = {
    "routed": lambda _: around(Cluster, "route", after=die),
    "waiting": _waiting,
    "draft": lambda _: _replacing(".yaml"),
    "assigned": lambda _: around(Stack, "assign", after=die),
    "preview": lambda _: _in_pulumi("preview", BEGUN),
    "update": lambda _: _in_pulumi("up", BEGUN),
    "patched": lambda _: _in_pulumi("up", PATCHED),
    "update-goes-on": lambda _: _in_pulumi("up", BEGUN, None),
    "engine-interrupted": lambda _: _in_pulumi("up", BEGUN, signal.SIGINT, us=False),
    "engine-terminated": lambda _: _in_pulumi("up", BEGUN, signal.SIGTERM, us=False),
    "one-region": lambda _: around(Stack, "up", after=die),
    "questions": lambda _: around(SiteRegion, "probed", after=die),
    "telling": _telling,
    "one-lease": lambda _: around(RegionLease, "acquire", after=die),
    "settling": lambda _: _replacing(".jsonl"),
    "syncing": lambda _: around(working_copy, "_sync", after=die),
    "left": lambda _: around(Ledger, "ask", after=die),
}


if __name__ == "__main__":
    install(*sys.argv[1].split())
    sys.exit(main(sys.argv[2:]))
