"""The commands of `k3fleet rollout` that touch something, and `k3fleet rollback`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.options import work_dir_option
from cli.output import print_line
from cli.progress import TerminalProgress
from cli.rollout_plan import HERE, REGIONS, STRATEGY, named_release, print_plan
from cli.rollout_status import FLEET_FILE, TYPED, lab_rollouts
from fleet.errors import EXIT_GO, EXIT_NO_GO, ConfigError
from fleet.load import load_fleet, load_release
from fleet.rollout.begin import plan_from, recorded, require_possible
from fleet.rollout.record import Began, Command, Ended, Scope
from fleet.rollout.state import OVER, Do, Over, Wait, read_state
from fleet.rollout.strategy import load_strategy
from infra.rollout.journal import Journal
from lab.drive import (
    ask,
    drive_on,
    holder,
    now_s,
    require_latest,
    state_of,
    turn_back,
    who,
)
from lab.rollout import LabRollouts, require_over


@click.command()
@FLEET_FILE
@click.argument("release")
@REGIONS
@STRATEGY
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
    rollouts = lab_rollouts(fleet_file, options["work_dir"])
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
    confirm(yes=options["yes"], what="Start it?")
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
    rollouts = lab_rollouts(fleet_file, work_dir)
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
    rollouts = lab_rollouts(fleet_file, work_dir)
    journal = require_latest(rollouts)
    state = state_of(journal)
    updated = [name for name, has in state.assigned.items() if has == state.started.new]
    click.echo(f"{state.started.new} -> {state.started.old}: up to {len(updated)} replicas")
    confirm(yes=yes, what="Roll back?")
    with _resumable(rollouts):
        came = turn_back(rollouts, journal, scope, _progress())
    if came is None:
        click.echo("its driver was asked; see `k3fleet rollout status`", err=True)
        return EXIT_GO
    return _told(journal, came, good="rolled-back")


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
        print_line(f"{state.status}: {came.why}")
        click.echo("ways on: " + "; ".join(TYPED[way] for way in came.ways))
        return EXIT_NO_GO
    click.echo(f"{came.status}: {state.started.old} -> {state.started.new}")
    return EXIT_GO if came.status == good else EXIT_NO_GO


def _ask(fleet_file: Path, work_dir: Path | None, command: Command) -> None:
    journal = require_latest(lab_rollouts(fleet_file, work_dir))
    if ask(journal, command):
        click.echo("its driver was asked; see `k3fleet rollout status`", err=True)
        return
    state = read_state(journal.read())
    click.echo(f"written down: the rollout is {state.status}", err=True)
    if state.status == "running":
        click.echo(f"nobody drives it: k3fleet rollout resume {fleet_file}", err=True)
