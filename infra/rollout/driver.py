"""Go through a rollout, one phase after the other, until somebody has to decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from fleet.errors import BusyError, FleetError
from fleet.rollout.record import Began, Ended, Outcome, Seen
from fleet.rollout.state import Do, Over, Wait, next_action
from infra.rollout.journal import Journal

# What ends a wait at once; a pause lets the step go to its end.
URGENT = frozenset({"abort", "roll-back"})


class Result(NamedTuple):
    """What came of a phase."""

    outcome: Outcome
    why: str = ""
    seen: Seen | None = None  # what frontends had counted, before they change


class Site(Protocol):
    """Where a rollout happens: the clusters, stacks and gateways of the fleet's regions."""

    def do(self, action: Do, stop: Callable[[], bool]) -> Result:
        """Do one phase; doing it again must be harmless. Ends soon when `stop` says so."""
        ...


def drive(
    journal: Journal,
    site: Site,
    *,
    clock: Callable[[], float],
    say: Callable[[Began | Ended, Do], None] = lambda _entry, _action: None,
) -> Wait | Over:
    """Drive the journal's rollout as far as it goes by itself; the caller holds the journal.

    An error of the world (an API server that is away, a failed update) is no verdict on the
    release: the phase is inconclusive, tried again as often as the strategy says, then held.
    """
    while True:
        journal.take_requests()
        action = next_action(journal.state())
        if not isinstance(action, Do):
            return action
        regions = set(action.step.regions)
        began = Began(at_s=clock(), phase=action.phase)
        journal.append(began, regions)
        say(began, action)
        result = _result(site, action, lambda: _urgent(journal))
        ended = Ended(
            at_s=clock(),
            phase=action.phase,
            outcome=result.outcome,
            why=result.why,
            seen=result.seen,
        )
        journal.append(ended, regions)
        say(ended, action)


def _result(site: Site, action: Do, stop: Callable[[], bool]) -> Result:
    try:
        return site.do(action, stop)
    except BusyError:  # somebody else drives now, and writes the record
        raise
    except FleetError as error:
        return Result("inconclusive", str(error))


def _urgent(journal: Journal) -> bool:
    return any(asked.command in URGENT for asked in journal.requests())
