"""`k3fleet rollout status`, and what the other commands of a rollout share with it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cli.output import output_option, print_facts, print_json, print_table
from cli.rollout_watch import watch
from cli.rollout_where import FLEET_FILE, rollouts_of, where_options
from fleet.errors import ConfigError
from fleet.rollout.record import PHASES, Command
from fleet.rollout.remaining import remaining
from fleet.rollout.state import WAYS_ON, State
from fleet.units import format_duration
from infra.rollout.journal import Journal
from infra.rollout.lease import described
from infra.rollout.machine import now_s
from infra.rollout.rollouts import Rollouts
from infra.rollout.steering import replica_states, require_latest, state_of

# What a person types for what the record says.
TYPED: dict[Command, str] = {
    "resume": "k3fleet rollout resume",
    "abort": "k3fleet rollout abort",
    "roll-back": "k3fleet rollback",
    "pause": "k3fleet rollout pause",
}


@click.command()
@FLEET_FILE
@click.option("--watch", "watching", is_flag=True, help="Show it until the rollout is over.")
@where_options
@output_option
def status(fleet_file: Path, watching: bool, output: str, **where: Any) -> None:
    """Show where the latest rollout is, and what each replica runs. Changes nothing.

    \b
    Example:
        k3fleet rollout status fleets/demo.yaml
        k3fleet rollout status fleets/demo.yaml --watch
    """
    rollouts = rollouts_of(fleet_file, where)
    if watching:
        if output == "json":
            raise ConfigError("--watch: is for people. Give --events to the driver for JSON.")
        watch(rollouts)
        return
    journal = require_latest(rollouts)
    state = state_of(journal)
    live = replica_states(rollouts)
    assigned = {**rollouts.running().assigned, **state.assigned}
    rows = [(name, release, *live.get(name, ("-", "no pod"))) for name, release in assigned.items()]
    if output == "json":
        keys = ("replica", "assigned", "live", "state")
        found = [dict(zip(keys, row, strict=True)) for row in rows]
        drivers = [asdict(seen) for seen in rollouts.drivers()]
        print_json({**status_json(journal, state), "drivers": drivers, "replicas": found})
        return
    print_table(("replica", "assigned", "live", "state"), rows)
    print_facts([*_status_facts(journal, state), *_drivers(rollouts, state)])


def status_json(journal: Journal, state: State) -> dict[str, object]:
    """Say where a rollout is, as plain data."""
    step = state.queue[0] if state.queue else None
    entries = journal.read()
    left = remaining(state, entries, now_s())
    return {
        "rollout": int(journal.path.stem),
        "record": str(journal.path),
        "old": state.started.old,
        "new": state.started.new,
        "status": state.status,
        "pausing": state.pausing,
        "way": "back" if state.back else "forwards",
        "step": None if step is None else list(step.names),
        "phase": None if step is None else state.phase,
        "last_entry_at_s": entries[-1].at_s,
        "steps_left": len(state.queue),
        "left": None if left is None else asdict(left),
        "why": state.why,
        "ways_on": [TYPED[way] for way in _ways(state)],
    }


def _status_facts(journal: Journal, state: State) -> list[tuple[str, str]]:
    told = status_json(journal, state)
    since_s = now_s() - journal.read()[-1].at_s
    facts = [
        ("rollout", f"{told['old']} -> {told['new']}, {told['way']}: {told['status']}"),
        ("record", str(told["record"])),
    ]
    if state.queue:
        replicas = ", ".join(state.queue[0].names)
        number = f"{PHASES.index(state.phase) + 1} of {len(PHASES)}"
        phase = f"{state.phase} ({number}), last entry {since_s:.0f} s ago"
        facts.append(("step", f"{replicas}; {len(state.queue) - 1} steps after it"))
        facts.append(("phase", phase))
    if isinstance(left := told["left"], dict):
        learnt = f", {left['factor']:.1f} times the plan by {left['steps']} steps"
        about = f"about {format_duration(round(left['seconds']))}"
        facts.append(("left", about + (learnt if left["steps"] else ", as planned")))
    if state.why:
        facts.append(("why", state.why))
    if ways := _ways(state):
        facts.append(("ways on", "; ".join(TYPED[way] for way in ways)))
    return facts


def _drivers(rollouts: Rollouts, state: State) -> list[tuple[str, str]]:
    """Say who holds which region, and what to do when he is gone."""
    seen = rollouts.drivers()
    facts = [("driver", f"{lease.region}: {described(lease)}") for lease in seen]
    if any(lease.expired for lease in seen):
        facts.append(("take over", "k3fleet rollout resume --take-over"))
    if not seen and state.status == "running":
        facts.append(("driver", "nobody: go on with k3fleet rollout resume"))
    return facts


def _ways(state: State) -> tuple[Command, ...]:
    return WAYS_ON if state.status in ("held", "paused") else ()
