"""`k3fleet rollout status --watch`: the picture of a rollout while it goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from cli.output import print_line
from cli.rollout_picture import Slot, picture, slots
from fleet.errors import ApplyError
from fleet.plan import make_plan
from fleet.rollout.state import OVER, State
from infra.rollout.rollouts import Rollouts
from infra.rollout.steering import replica_states, require_latest, state_of

EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is seen at one moment."""

    state: State
    slots: tuple[Slot, ...]
    line: str  # in one line
    why: str


def watch(rollouts: Rollouts, pause: Callable[[float], None] = time.sleep) -> None:
    """Show the latest rollout until it is over: drawn anew on a terminal, else a line per change.

    Ctrl-C ends only the watching.
    """
    with _shown() as show:
        while True:
            view = _view(rollouts)
            show(view)
            if view.state.status in OVER:
                return
            pause(EVERY_S)


def _view(rollouts: Rollouts) -> View:
    state = state_of(require_latest(rollouts))
    places = [
        (region.name, rack.id, name)
        for region in make_plan(rollouts.fleet).regions
        for rack in region.racks
        for name in rack.replica_names
    ]
    why = state.why
    try:
        live = replica_states(rollouts)
    except ApplyError as error:
        live, why = {}, str(error)
    found = tuple(slots(places, live, state))
    return View(state=state, slots=found, line=_line(state, found), why=why)


def _line(state: State, found: tuple[Slot, ...]) -> str:
    updated = sum(slot.release == state.started.new for slot in found)
    serving = sum(slot.state == "serves" for slot in found)
    doing = ""
    if state.queue and state.status == "running":
        doing = f" {state.phase} {', '.join(state.queue[0].names)};"
    way = " back" if state.back else ""
    counts = f"{serving} of {len(found)} serve, {updated} have {state.started.new}"
    return f"{state.status}{way}:{doing} {len(state.queue)} steps left; {counts}"


@contextmanager
def _shown() -> Iterator[Callable[[View], None]]:
    console = Console()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda view: live.update(
                picture(view.slots, view.state, [view.line, *([view.why] if view.why else [])]),
                refresh=True,
            )
        return
    last = ""

    def say(view: View) -> None:
        nonlocal last
        line = f"{view.line}; {view.why}" if view.why else view.line
        if line != last:
            print_line(f"{datetime.now(UTC).strftime('%H:%M:%SZ')} {line}")
            sys.stdout.flush()
        last = line

    yield say
