"""Drive the rollout of a lab, or ask its driver: one process drives, many may ask."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from fleet.errors import ConfigError
from fleet.rollout.record import Asked, Began, Command, Ended, Scope
from fleet.rollout.state import OVER, Do, Over, State, Wait, after, read_state, refusal
from infra.rollout.driver import drive
from infra.rollout.journal import Journal
from lab.interrupts import interruptible
from lab.rollout import LabRollouts

Say = Callable[[Began | Ended, Do], None]


def holder() -> dict[str, str]:
    """Describe this process to whoever finds the record held."""
    return {
        "pid": str(os.getpid()),
        "host": socket.gethostname(),
        "user": who(),
        "since": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def who() -> str:
    """Name the user for the record."""
    return getpass.getuser()


def now_s() -> float:
    """Give the Unix time."""
    return datetime.now(UTC).timestamp()


def require_latest(rollouts: LabRollouts) -> Journal:
    """Give the record of the latest rollout; raise ConfigError when there was none."""
    journal = rollouts.latest()
    if journal is None:
        raise ConfigError(
            f"{rollouts.folder}: no rollout was started. Start one: "
            f"k3fleet rollout start {rollouts.fleet.path} RELEASE"
        )
    return journal


def state_of(journal: Journal) -> State:
    """Read a rollout's state with what was asked and not yet taken by its driver."""
    state = read_state(journal.read())
    for asked in journal.requests():
        state = after(state, asked)
    return state


def ask(journal: Journal, command: Command, scope: Scope = "fleet") -> bool:
    """Ask for something; say whether a driver was there to hear it.

    Raises ConfigError where it makes no sense now.
    """
    if why := refusal(state_of(journal), command):
        raise ConfigError(
            f"{journal.path}: {command} changes nothing: {why}. See `k3fleet rollout status`."
        )
    asked = Asked(at_s=now_s(), by=who(), command=command, scope=scope)
    return journal.ask(asked, holder())


def drive_on(rollouts: LabRollouts, journal: Journal, say: Say) -> Wait | Over:
    """Be the driver until the rollout is over or somebody has to decide.

    A rollout that waits for a decision is told to go on. Raises BusyError while another drives;
    a signal ends it, and leaves a record from which anybody can go on.
    """
    with journal.held(holder()), interruptible():
        journal.take_requests()
        state = read_state(journal.read())
        if state.status in OVER:
            return Over(status=state.status)
        if state.status != "running":
            journal.append(Asked(at_s=now_s(), by=who(), command="resume"))
        return drive(journal, rollouts.site(state.started), clock=now_s, say=say)


def turn_back(
    rollouts: LabRollouts, journal: Journal, scope: Scope, say: Say
) -> Wait | Over | None:
    """Roll back; None when a driver runs that was asked to."""
    if ask(journal, "roll-back", scope):
        return None
    return drive_on(rollouts, journal, say)


def replica_states(rollouts: LabRollouts) -> Mapping[str, tuple[str, str]]:
    """Say of each replica in the cluster which release its leader runs, and how it stands."""
    found: dict[str, tuple[str, str]] = {}
    for cluster in rollouts.regions().values():
        routed, workers = cluster.in_routing(), cluster.workers()
        for pod in cluster.engines():
            if pod.leader:
                found[pod.replica] = (
                    pod.release,
                    _standing(
                        gone=pod.deleting,
                        ready=pod.ready,
                        chosen=pod.name in routed and pod.name in workers,
                    ),
                )
    return found


def _standing(*, gone: bool, ready: bool, chosen: bool) -> str:
    if gone:
        return "ends"
    if not ready:
        return "not ready"
    return "serves" if chosen else "out of routing"
