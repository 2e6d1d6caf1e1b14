"""`k3fleet rollout status`, and what the other commands of a rollout share with it."""

from __future__ import annotations

from pathlib import Path

import click

from cli.options import work_dir_option
from cli.output import output_option, print_facts, print_json, print_table
from cli.wiring import surroundings
from fleet.load import load_fleet
from fleet.rollout.record import PHASES, Command
from fleet.rollout.state import WAYS_ON, State
from infra.rollout.journal import Journal
from lab.drive import now_s, replica_states, require_latest, state_of
from lab.rollout import LabRollouts

FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))
# What a person types for what the record says.
TYPED: dict[Command, str] = {
    "resume": "k3fleet rollout resume",
    "abort": "k3fleet rollout abort",
    "roll-back": "k3fleet rollback",
    "pause": "k3fleet rollout pause",
}


@click.command()
@FLEET_FILE
@work_dir_option
@output_option
def status(fleet_file: Path, work_dir: Path | None, output: str) -> None:
    """Show where the latest rollout is, and what each replica runs. Changes nothing.

    \b
    Example:
        k3fleet rollout status fleets/demo.yaml
    """
    rollouts = lab_rollouts(fleet_file, work_dir)
    journal = require_latest(rollouts)
    state = state_of(journal)
    live = replica_states(rollouts)
    assigned = {**rollouts.running().assigned, **state.assigned}
    rows = [(name, release, *live.get(name, ("-", "no pod"))) for name, release in assigned.items()]
    if output == "json":
        keys = ("replica", "assigned", "live", "state")
        found = [dict(zip(keys, row, strict=True)) for row in rows]
        print_json({**_status_json(journal, state), "replicas": found})
        return
    print_table(("replica", "assigned", "live", "state"), rows)
    print_facts(_status_facts(journal, state))


def _status_json(journal: Journal, state: State) -> dict[str, object]:
    step = state.queue[0] if state.queue else None
    return {
        "record": str(journal.path),
        "old": state.started.old,
        "new": state.started.new,
        "status": state.status,
        "pausing": state.pausing,
        "way": "back" if state.back else "forwards",
        "step": None if step is None else [place.replica for place in step.places],
        "phase": None if step is None else state.phase,
        "last_entry_at_s": journal.read()[-1].at_s,
        "steps_left": len(state.queue),
        "why": state.why,
        "ways_on": [TYPED[way] for way in _ways(state)],
    }


def _status_facts(journal: Journal, state: State) -> list[tuple[str, str]]:
    told = _status_json(journal, state)
    since_s = now_s() - journal.read()[-1].at_s
    facts = [
        ("rollout", f"{told['old']} -> {told['new']}, {told['way']}: {told['status']}"),
        ("record", str(told["record"])),
    ]
    if state.queue:
        replicas = ", ".join(place.replica for place in state.queue[0].places)
        number = f"{PHASES.index(state.phase) + 1} of {len(PHASES)}"
        phase = f"{state.phase} ({number}), last entry {since_s:.0f} s ago"
        facts.append(("step", f"{replicas}; {len(state.queue) - 1} steps after it"))
        facts.append(("phase", phase))
    if state.why:
        facts.append(("why", state.why))
    if ways := _ways(state):
        facts.append(("ways on", "; ".join(TYPED[way] for way in ways)))
    return facts


def _ways(state: State) -> tuple[Command, ...]:
    return WAYS_ON if state.status in ("held", "paused") else ()


def lab_rollouts(fleet_file: Path, work_dir: Path | None) -> LabRollouts:
    """Find the rollouts of a fleet's lab."""
    fleet = load_fleet(fleet_file)
    return LabRollouts.of(fleet, surroundings(fleet, work_dir))
