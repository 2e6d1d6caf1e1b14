"""The commands of `k3fleet rollout` that touch something, and `k3fleet rollback`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from cli.options import work_dir_option
from cli.output import output_option, print_facts, print_json, print_table
from cli.progress import TerminalProgress
from cli.rollout_plan import HERE, named_release, print_plan
from cli.wiring import surroundings
from fleet.errors import EXIT_GO, EXIT_NO_GO, ConfigError
from fleet.load import load_fleet, load_release
from fleet.rollout.begin import plan_from, recorded, require_possible
from fleet.rollout.record import PHASES, Began, Command, Ended, Scope
from fleet.rollout.state import OVER, WAYS_ON, Do, Over, State, Wait, read_state
from fleet.rollout.strategy import load_strategy
from infra.rollout.journal import Journal
from lab.drive import (
    ask,
    drive_on,
    holder,
    now_s,
    replica_states,
    require_latest,
    state_of,
    turn_back,
    who,
)
from lab.rollout import LabRollouts, require_over

FLEET_FILE = click.argument("fleet_file", type=click.Path(path_type=Path))
YES = click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal.")
# What a person types for what the record says.
TYPED: dict[Command, str] = {
    "resume": "k3fleet rollout resume",
    "abort": "k3fleet rollout abort",
    "roll-back": "k3fleet rollback",
    "pause": "k3fleet rollout pause",
}


@click.command()
@FLEET_FILE
@click.argument("release")
@click.option(
    "--region", "regions", multiple=True, metavar="NAME", help="Only this region. Repeatable."
)
@click.option(
    "--strategy",
    "strategy_file",
    type=click.Path(path_type=Path),
    help="Waves, pace, floors and gates (docs/rollout.md).",
)
@YES
@work_dir_option
def start(
    fleet_file: Path,
    release: str,
    regions: tuple[str, ...],
    strategy_file: Path | None,
    **options: Any,
) -> int:
    """Bring RELEASE out in the running lab of FLEET_FILE: show the plan, ask, and drive it.

    \b
    Example:
        k3fleet rollout start fleets/demo.yaml releases/mine-0a1b2c3d.yaml
    """
    rollouts = _rollouts(fleet_file, options["work_dir"])
    require_over(rollouts.latest())
    load_release(release, beside=HERE)  # its own faults first, as it was typed
    source = named_release(release)
    fleet, running = rollouts.fleet, rollouts.running()
    new = load_fleet(fleet_file, release=source).release
    strategy = load_strategy(strategy_file)
    plan = plan_from(fleet, running, new, strategy, regions)
    print_plan(plan)
    if not plan.steps:
        return EXIT_GO
    require_possible(fleet, plan, running.releases[plan.old], new)
    _confirm(yes=options["yes"], what="Start it?")
    sources = {**rollouts.sources(), plan.new: source}
    started = recorded(fleet, plan, strategy, releases=sources, by=who(), at_s=now_s())
    journal = rollouts.begin(started, holder())
    return _told(journal, _drive(rollouts, journal), good="done")


@click.command()
@FLEET_FILE
@work_dir_option
def resume(fleet_file: Path, work_dir: Path | None) -> int:
    """Drive the latest rollout on: after a kill, a pause, or when it is held.

    \b
    Example:
        k3fleet rollout resume fleets/demo.yaml
    """
    rollouts = _rollouts(fleet_file, work_dir)
    journal = require_latest(rollouts)
    state = state_of(journal)
    if state.status in OVER:
        raise ConfigError(f"{journal.path}: the rollout is {state.status}. Start another one.")
    good = "rolled-back" if state.back else "done"
    return _told(journal, _drive(rollouts, journal), good=good)


@click.command()
@FLEET_FILE
@work_dir_option
def pause(fleet_file: Path, work_dir: Path | None) -> None:
    """Let the latest rollout stop once its step is over.

    \b
    Example:
        k3fleet rollout pause fleets/demo.yaml
    """
    _ask(fleet_file, work_dir, "pause")


@click.command()
@FLEET_FILE
@work_dir_option
def abort(fleet_file: Path, work_dir: Path | None) -> None:
    """Give the latest rollout up: turn its step back, and leave all others as they are.

    \b
    Example:
        k3fleet rollout abort fleets/demo.yaml
    """
    _ask(fleet_file, work_dir, "abort")


@click.command()
@FLEET_FILE
@click.option(
    "--scope",
    type=click.Choice(["replica", "rack", "region", "fleet"]),
    default="fleet",
    show_default=True,
    help="How much goes back, seen from the step that runs or ran last.",
)
@YES
@work_dir_option
def rollback(fleet_file: Path, scope: Scope, yes: bool, work_dir: Path | None) -> int:
    """Bring replicas back to what they ran before the latest rollout, the last first.

    \b
    Example:
        k3fleet rollback fleets/demo.yaml --scope rack
    """
    rollouts = _rollouts(fleet_file, work_dir)
    journal = require_latest(rollouts)
    state = state_of(journal)
    updated = [name for name, has in state.assigned.items() if has == state.started.new]
    click.echo(f"{state.started.new} -> {state.started.old}: up to {len(updated)} replicas")
    _confirm(yes=yes, what="Roll back?")
    with _resumable(rollouts):
        came = turn_back(rollouts, journal, scope, _progress())
    if came is None:
        click.echo("its driver was asked; see `k3fleet rollout status`", err=True)
        return EXIT_GO
    return _told(journal, came, good="rolled-back")


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
    rollouts = _rollouts(fleet_file, work_dir)
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


def _rollouts(fleet_file: Path, work_dir: Path | None) -> LabRollouts:
    fleet = load_fleet(fleet_file)
    return LabRollouts.of(fleet, surroundings(fleet, work_dir))


def _confirm(*, yes: bool, what: str) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        command = click.get_current_context().command_path
        raise ConfigError(f"{command}: nobody can be asked here. Give --yes.")
    click.confirm(what, abort=True, err=True)


def _drive(rollouts: LabRollouts, journal: Journal) -> Wait | Over:
    with _resumable(rollouts):
        return drive_on(rollouts, journal, _progress())


@contextmanager
def _resumable(rollouts: LabRollouts) -> Iterator[None]:
    """Say after a signal how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            f"\nstopped; nothing is lost: k3fleet rollout resume {rollouts.fleet.path}", err=True
        )
        raise


def _progress() -> Callable[[Began | Ended, Do], None]:
    """Make one line per phase on stderr."""
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


def _told(journal: Journal, came: Wait | Over, *, good: str) -> int:
    """Say how it came out; the exit code says whether as wanted."""
    state = read_state(journal.read())
    if isinstance(came, Wait):
        click.echo(f"{state.status}: {came.why}")
        click.echo("ways on: " + "; ".join(TYPED[way] for way in came.ways))
        return EXIT_NO_GO
    click.echo(f"{came.status}: {state.started.old} -> {state.started.new}")
    return EXIT_GO if came.status == good else EXIT_NO_GO


def _ask(fleet_file: Path, work_dir: Path | None, command: Command) -> None:
    journal = require_latest(_rollouts(fleet_file, work_dir))
    if ask(journal, command):
        click.echo("its driver was asked; see `k3fleet rollout status`", err=True)
        return
    state = read_state(journal.read())
    click.echo(f"written down: the rollout is {state.status}", err=True)
    if state.status == "running":
        click.echo(f"nobody drives it: k3fleet rollout resume {fleet_file}", err=True)
