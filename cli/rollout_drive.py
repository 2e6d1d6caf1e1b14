"""The commands of `k3fleet rollout` that touch something, and `k3fleet rollback`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cli.confirm import YES, confirm
from cli.output import output_option, print_json
from cli.rollout_driving import begin, driven, driving, driving_options
from cli.rollout_plan import HERE, REGIONS, STRATEGY, named_release
from cli.rollout_status import status_json
from cli.rollout_told import told
from cli.rollout_where import FLEET_FILE, rollouts_of, where_options
from fleet.errors import EXIT_GO, ConfigError
from fleet.load import load_fleet, load_release
from fleet.release import release_id
from fleet.rollout.record import Command
from fleet.rollout.state import OVER, State
from infra.rollout.journal import Journal
from infra.rollout.rollouts import Rollouts, require_over
from infra.rollout.stack import release_of
from infra.rollout.steering import ask, require_latest, state_of, turn_back
from lab.faults import FAULTS

OVERWRITE = click.option(
    "--overwrite",
    is_flag=True,
    help="Let the current step overwrite what somebody changed by hand in its replicas.",
)


@click.command()
@FLEET_FILE
@click.argument("release")
@REGIONS
@STRATEGY
@click.option(
    "--fault",
    type=click.Choice(list(FAULTS)),
    help="Rehearse a bad release: what the lab's stand-in for RELEASE does wrong.",
)
@YES
@driving_options
def start(fleet_file: Path, release: str, **options: Any) -> int:
    """Bring RELEASE out in the clusters of FLEET_FILE: show the plan, ask, and drive it.

    \b
    Example:
        k3fleet rollout start fleets/demo.yaml releases/mine-0a1b2c3d.yaml
        k3fleet rollout start fleets/demo.yaml releases/mine-0a1b2c3d.yaml --fault leaks
    """
    rollouts = rollouts_of(fleet_file, options)
    require_over(rollouts.latest())
    load_release(release, beside=HERE)  # its own faults first, as it was typed
    source = named_release(release, fleet_file)
    load_fleet(fleet_file, release=source)  # is the fleet fit for it?
    return begin(rollouts, source, options, good="done")


@click.command()
@FLEET_FILE
@OVERWRITE
@driving_options
def resume(fleet_file: Path, **options: Any) -> int:
    """Drive the latest rollout on: after a kill, a pause, or when it is held.

    From any working copy: the record is in the clusters.

    \b
    Example:
        k3fleet rollout resume fleets/demo.yaml
    """
    rollouts = rollouts_of(fleet_file, options)
    journal = require_latest(rollouts)
    state = state_of(journal)
    if state.status in OVER:
        raise ConfigError(f"{journal.path}: the rollout is {state.status}. Start another one.")
    good = "rolled-back" if state.back else "done"
    return driven(rollouts, journal, options, good=good)


@click.command()
@FLEET_FILE
@where_options
@output_option
def pause(fleet_file: Path, output: str, **where: Any) -> None:
    """Let the latest rollout stop once its step is over.

    \b
    Example:
        k3fleet rollout pause fleets/demo.yaml
    """
    _ask(fleet_file, where, "pause", output)


@click.command()
@FLEET_FILE
@where_options
@output_option
def abort(fleet_file: Path, output: str, **where: Any) -> None:
    """Give the latest rollout up: turn its step back, and leave all others as they are.

    \b
    Example:
        k3fleet rollout abort fleets/demo.yaml
    """
    _ask(fleet_file, where, "abort", output)


@click.command()
@FLEET_FILE
@click.option(
    "--scope",
    type=click.Choice(["replica", "rack", "region", "fleet"]),
    default="fleet",
    show_default=True,
    help="How much goes back, seen from the step that runs or ran last.",
)
@click.option(
    "--step",
    "keep",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Go back to the end of step N of the latest rollout.",
)
@click.option(
    "--to",
    "target",
    metavar="RELEASE",
    help="Go back to this release of `k3fleet history`, by its id or as it is named.",
)
@STRATEGY
@YES
@driving_options
def rollback(fleet_file: Path, target: str | None, **options: Any) -> int:
    """Bring replicas back to what they ran before the latest rollout, the last first.

    \b
    Example:
        k3fleet rollback fleets/demo.yaml --scope rack
        k3fleet rollback fleets/demo.yaml --to mine-0a1b2c3d
    """
    rollouts = rollouts_of(fleet_file, options)
    journal = require_latest(rollouts)
    state = state_of(journal)
    if target is not None:
        if options["keep"] or options["scope"] != "fleet":
            raise ConfigError(
                "--to: brings all replicas to a release. Leave out --scope and --step."
            )
        source = known_release(rollouts, target)
        identity = release_id(load_release(source, beside=fleet_file))
        if not leads_back_to(state, identity):
            require_over(journal)
            return begin(rollouts, source, {**options, "regions": (), "fault": None}, good="done")
    sources = {**rollouts.sources(), **state.started.releases}
    release_of(state.started.old, sources, fleet_file)  # unreadable: said before anything is done
    updated = [name for name, has in state.assigned.items() if has == state.started.new]
    what = f"{state.started.new} -> {state.started.old}: up to {len(updated)} replicas"
    if fronts := [name for name, has in state.shared.items() if has == state.started.new]:
        what += f", frontends and gateway of {', '.join(fronts)}"
    click.echo(what, err=options["output"] == "json")
    confirm(yes=options["yes"], what="Roll back?")
    part = (options["scope"], options["keep"])
    with driving(rollouts, journal, options) as (how, tell):
        came = turn_back(rollouts, journal, part, how)
        tell.came(came)
    if came is None:
        _say_asked(journal, options["output"])
        return EXIT_GO
    return told(journal, came, good="rolled-back", output=options["output"])


def known_release(rollouts: Rollouts, target: str) -> str:
    """Say where a release is read from that this fleet has had, by its id or as it is named."""
    sources = rollouts.sources()
    source = sources.get(target, target)
    if target not in sources and target not in sources.values():
        source = named_release(target, rollouts.fleet.path)
        if source not in sources.values():
            raise ConfigError(
                f"--to {target}: this fleet has not had it. Choose one of: "
                f"{', '.join(sorted(sources))}; or bring it out with `k3fleet rollout start`."
            )
    if target in sources:
        release_of(target, sources, rollouts.fleet.path)  # its file may be gone, or another one
    return source


def leads_back_to(state: State, identity: str) -> bool:
    """Say whether turning the latest rollout back is the way to a release."""
    turned = state.started.new in {*state.assigned.values(), *state.shared.values()}
    return identity == state.started.old and (turned or state.status not in OVER)


def _say_asked(journal: Journal, output: str) -> None:
    click.echo("its driver was asked; see `k3fleet rollout status`", err=True)
    if output == "json":
        print_json(status_json(journal, state_of(journal)))


def _ask(fleet_file: Path, where: Mapping[str, Any], command: Command, output: str) -> None:
    journal = require_latest(rollouts_of(fleet_file, where))
    if ask(journal, command):
        _say_asked(journal, output)
        return
    state = journal.state()
    if output == "json":
        print_json(status_json(journal, state))
    click.echo(f"written down: the rollout is {state.status}", err=True)
    if state.status == "running":
        click.echo(f"nobody drives it: k3fleet rollout resume {fleet_file}", err=True)
