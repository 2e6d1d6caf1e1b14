"""Drive a rollout, or ask its driver: one process drives, many may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from fleet.errors import ConfigError
from fleet.rollout.record import Asked, Began, Command, Ended, Scope
from fleet.rollout.state import OVER, Do, Over, State, Wait, after, refusal
from infra.rollout.driver import drive
from infra.rollout.journal import Journal
from infra.rollout.machine import holder, now_s, waiter, who
from infra.rollout.rights import Rights, both
from infra.rollout.rollouts import Rollouts, touched
from infra.rollout.sampling import figures_file, sampled
from infra.rollout.standings import standings
from infra.rollout.working_copy import up_to_date

Say = Callable[[Began | Ended, Do], None]


def require_latest(rollouts: Rollouts) -> Journal:
    """Give the record of the latest rollout; raise ConfigError when there was none."""
    journal = rollouts.latest()
    if journal is None:
        for cluster in rollouts.regions.values():
            cluster.owner()  # AwayError: it may have a record that this working copy has not
        raise ConfigError(
            f"{rollouts.folder}: no rollout was started. Start one: "
            f"k3fleet rollout start {rollouts.fleet.path} RELEASE"
        )
    return journal


def state_of(journal: Journal) -> State:
    """Read a rollout's state with what was asked and not yet taken by its driver."""
    state = journal.state()
    for asked in journal.requests():
        state = after(state, asked)
    return state


def ask(
    journal: Journal,
    command: Command,
    part: tuple[Scope, int] = ("fleet", 0),
    *,
    take_over: bool = False,
) -> bool:
    """Ask for something; say whether a driver was there to hear it.

    `part`: of a roll-back, its scope and the steps that it leaves as they are. Raises ConfigError
    where it makes no sense now.
    """
    scope, keep = part
    if why := refusal(state_of(journal), command, keep):
        raise ConfigError(
            f"{journal.path}: {command} changes nothing: {why}. See `k3fleet rollout status`."
        )
    asked = Asked(at_s=now_s(), by=who(), command=command, scope=scope, step=keep)
    return journal.ask(asked, holder(), take_over=take_over)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driving:
    """How somebody wants to drive."""

    say: Say
    take_over: bool = False  # from a holder that seems to live
    overwrite: bool = False  # what was changed by hand in the current step


def drive_on(rollouts: Rollouts, journal: Journal, how: Driving) -> Wait | Over:
    """Be the driver until the rollout is over or somebody has to decide.

    A rollout that waits for a decision is told to go on. Raises BusyError while another drives;
    an exception leaves a record from which anybody can go on.
    """
    rights = Rights(
        clusters=rollouts.regions, ask=rollouts.venue.require_right, say=rollouts.venue.note
    )
    rights.await_any(waiter(lambda: False))
    with journal.held(holder(), take_over=how.take_over), ExitStack() as claims:
        journal.take_requests()
        state = journal.state()
        if state.status in OVER:
            return Over(status=state.status)
        if state.status != "running" or how.overwrite:
            asked = Asked(at_s=now_s(), by=who(), command="resume", overwrite=how.overwrite)
            journal.append(asked)
        rollouts = up_to_date(rollouts)
        regions = touched(state.started)
        rights.look(regions)
        for region in regions:
            claims.enter_context(rollouts.venue.claimed(region))
        site = rollouts.site(state.started, both(journal.require_held, rights.require))
        looks = {name: region.cluster for name, region in site.regions.items()}
        new = state.started.new
        with sampled(figures_file(journal.path), looks, new, say=rollouts.venue.note):
            return drive(journal, site, clock=now_s, say=how.say)


def turn_back(
    rollouts: Rollouts, journal: Journal, part: tuple[Scope, int], how: Driving
) -> Wait | Over | None:
    """Roll a part back: a scope, and the steps that stay; None when a driver was asked to."""
    if ask(journal, "roll-back", part, take_over=how.take_over):
        return None
    return drive_on(rollouts, journal, how)


def replica_states(rollouts: Rollouts) -> Mapping[str, tuple[str, str]]:
    """Say of each replica in the clusters which release its leader runs, and how it stands."""
    return standings(rollouts.regions.values())
