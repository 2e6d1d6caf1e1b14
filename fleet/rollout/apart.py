"""Say what it costs to go from one set of releases to another that is kept apart from it.

Pure. Sessions have to change over: the share of the new set grows with its replicas, before each
drain and after each replica has answered (`fleet.session_shares`). A session changes over once.
While the old set serves, a replica that leaves also hands sessions to others of its set, and they
pay a cold prefill as in any rollout: so a step costs up to twice what it does inside of a set.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.rollout.strategy import Assumed
from fleet.rollout.timing import HIT_POINTS_PER_SHARE, StepCost, step_cost


def moved_share(leaving: int, replicas: int, done: int) -> float:
    """Give the part of a region's sessions that a step has computed once more.

    `done`: its replicas that run the new release before the step.
    """
    staying, old = replicas - leaving, replicas - done
    if not staying or not old:
        return 1.0
    left_with_the_old = 1.0 - done / staying  # of all sessions, while the step runs
    return leaving / replicas + left_with_the_old * leaving / old


def apart_cost(leaving: int, replicas: int, done: int, assumed: Assumed) -> StepCost:
    """Say what a step costs where the two releases are kept apart."""
    usual, share = step_cost(leaving, replicas, assumed), moved_share(leaving, replicas, done)
    factor = share * replicas / leaving
    return replace(
        usual,
        sessions=round(usual.sessions * factor),
        prefill_tokens=round(usual.prefill_tokens * factor),
        prefill_s=usual.prefill_s * factor,
        hit_dip=HIT_POINTS_PER_SHARE * share,
    )
