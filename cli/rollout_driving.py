"""What the commands that drive a rollout share: their options, the start, and who is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cli.confirm import confirm
from cli.output import FunctionT, output_option, print_json
from cli.rollout_plan import print_plan
from cli.rollout_told import Notices, notices, require_tellable, telling, told
from cli.rollout_where import where_options
from fleet.errors import EXIT_GO
from fleet.load import load_release
from fleet.rollout.begin import plan_from, recorded, require_possible
from fleet.rollout.plan import rollout_json
from fleet.rollout.record import Began, Ended
from fleet.rollout.state import Do, Over, Wait
from fleet.rollout.strategy import load_strategy
from infra.rollout.journal import Journal
from infra.rollout.machine import holder, now_s, who
from infra.rollout.rollouts import Rollouts
from infra.rollout.steering import Driving, drive_on
from infra.rollout.webhook import require_recordable
from infra.rollout.working_copy import up_to_date
from lab.interrupts import interruptible

_DRIVING = (
    click.option(
        "--take-over",
        is_flag=True,
        help="Drive although somebody else seems to; he stops before his next touch.",
    ),
    click.option(
        "--events",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Append every event to this file, one JSON object a line.",
    ),
    output_option,
    where_options,
)


def driving_options(command: FunctionT) -> FunctionT:
    """Add the options of all commands that drive."""
    for option in reversed(_DRIVING):
        command = option(command)
    return command


def begin(rollouts: Rollouts, source: str, options: Mapping[str, Any], *, good: str) -> int:
    """Show the plan to a release, ask, write the rollout down, and drive it."""
    rollouts = up_to_date(rollouts)
    fleet, running = rollouts.fleet, rollouts.running()
    new = load_release(source, beside=fleet.path)
    strategy = load_strategy(options["strategy_file"])
    if strategy.webhook is not None:
        require_recordable(strategy.webhook, f"{options['strategy_file']}: webhook")
    for name in options["regions"] or rollouts.regions:
        if name in rollouts.regions:  # what is unknown is said with the plan
            rollouts.venue.require_right(name)
    plan = plan_from(fleet, running, new, strategy, options["regions"])
    if options["output"] == "table":
        print_plan(plan)
    elif not plan.steps:
        print_json(rollout_json(plan))
    if not plan.steps:
        return EXIT_GO
    require_possible(fleet, plan, running.releases[plan.old], new)
    confirm(yes=options["yes"], what="Start it?")
    running = replace(running, sources={**running.sources, plan.new: source})
    started = recorded(fleet, plan, strategy, running=running, by=who(), at_s=now_s())
    require_tellable(options["events"])
    rollouts.venue.spoil(new, options["fault"])
    journal = rollouts.begin(started, holder(), take_over=options["take_over"])
    return driven(rollouts, journal, options, good=good)


def driven(rollouts: Rollouts, journal: Journal, options: Mapping[str, Any], *, good: str) -> int:
    """Drive a rollout and tell how it came out; give the exit code."""
    with driving(rollouts, journal, options) as (how, tell):
        came: Wait | Over = drive_on(rollouts, journal, how)
        tell.came(came)
    return told(journal, came, good=good, output=options["output"])


@contextmanager
def driving(
    rollouts: Rollouts, journal: Journal, options: Mapping[str, Any]
) -> Iterator[tuple[Driving, Notices]]:
    """Give how to drive and whom to tell, by the options of all commands that drive."""
    note = rollouts.venue.note
    with (
        _resumable(rollouts),
        interruptible(),
        telling(options["events"]) as say,
        notices(rollouts.fleet.spec.name, journal, note) as tell,
    ):

        def both(entry: Began | Ended, action: Do) -> None:
            say(entry, action)
            tell.phase(entry, action)

        yield (
            Driving(
                say=both,
                take_over=options["take_over"],
                overwrite=options.get("overwrite", False),
            ),
            tell,
        )


@contextmanager
def _resumable(rollouts: Rollouts) -> Iterator[None]:
    """Say after a signal how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            f"\nstopped; nothing is lost: k3fleet rollout resume {rollouts.fleet.path}", err=True
        )
        raise
