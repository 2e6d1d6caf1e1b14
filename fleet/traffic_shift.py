"""Plan how the sessions of a region move to the others, slice by slice, and what that costs.

Pure. A gateway cannot tell a session that goes on from one that begins, so sessions do not wait
for their end: they move, in slices of a session's hash, and each that moves has its whole context
computed once more where it arrives. Slices come as fast as a share of the receivers' prefill can
take them; all at once is what a dead region does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from fleet.errors import CapacityError
from fleet.rollout.strategy import Assumed

# Of a gateway's weights: half a percent of the sessions is the smallest slice.
TOTAL_WEIGHT = 1000
SLICES = 20
# A kubelet brings a changed ConfigMap to its pods within its sync period and cache, 60 + 30 s.
HEARD_S = 120.0
# Between two calls of an open session, over public traces of agents.
STEP_S = 78.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Replicas of one side of a move."""

    name: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How fast sessions may move."""

    prefill_share: float  # of the receivers, that moved sessions may take
    heard_s: float = HEARD_S  # until all gateways know of a slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One part of the sessions, and the pause before the next."""

    weight: int  # that goes elsewhere from now on, of TOTAL_WEIGHT
    sessions: int
    prefill_tokens: int
    pause_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A whole move; sessions that end meanwhile make it cheaper."""

    slices: tuple[Slice, ...]
    sessions: int
    prefill_tokens: int
    prefill_share: float  # of the receivers, at most, while it lasts
    at_once_s: float  # of all receivers' prefill, if nothing was paced
    hit_dip: float  # of the receivers while it lasts, in points of one
    load: float  # sessions of a receiver afterwards, against before

    @property
    def total_s(self) -> float:
        """How long it takes."""
        return sum(part.pause_s for part in self.slices)


def plan_shift(
    sender: Side,
    receiver: Side,
    assumed: Assumed,
    *,
    pacing: Pacing,
    weight: int = 0,
    target: int = TOTAL_WEIGHT,
) -> Shift:
    """Plan the way from one weight to another; `sender` is where sessions leave.

    Raises CapacityError when nobody is there to receive them.
    """
    if not receiver.replicas:
        raise CapacityError(
            f"{receiver.name}: no replica serves there, so no session can go there. "
            "Bring replicas up first."
        )
    rate = receiver.replicas * assumed.prefill_tokens_per_s
    all_sessions = sender.replicas * assumed.sessions_per_replica
    slices = tuple(
        _slice(
            math.ceil(all_sessions * abs(after - before) / TOTAL_WEIGHT),
            after,
            assumed,
            rate,
            pacing,
        )
        for before, after in _steps(weight, target)
    )
    tokens = sum(part.prefill_tokens for part in slices)
    total_s = sum(part.pause_s for part in slices)
    usual = receiver.replicas * assumed.sessions_per_replica
    moved = sum(part.sessions for part in slices)
    return Shift(
        slices=slices,
        sessions=moved,
        prefill_tokens=tokens,
        prefill_share=tokens / (rate * total_s) if total_s else 0.0,
        at_once_s=tokens / rate,
        hit_dip=_dip(moved, usual, total_s),
        load=(usual + moved) / usual if usual else 1.0,
    )


def _steps(weight: int, target: int) -> tuple[tuple[int, int], ...]:
    """Cut the way into equal slices, none larger than a twentieth of all sessions."""
    size = TOTAL_WEIGHT // SLICES
    count = math.ceil(abs(target - weight) / size)
    if not count:
        return ()
    ends = [weight + round((target - weight) * n / count) for n in range(count + 1)]
    return tuple(pairwise(ends))


def _slice(moved: int, after: int, assumed: Assumed, rate: float, pacing: Pacing) -> Slice:
    """Plan a slice; `rate`: prompt tokens that all receivers compute in a second."""
    tokens = moved * assumed.context_tokens
    return Slice(
        weight=after,
        sessions=moved,
        prefill_tokens=tokens,
        pause_s=max(pacing.heard_s, tokens / (rate * pacing.prefill_share)),
    )


def _dip(moved: int, usual: int, total_s: float) -> float:
    """Estimate how far the receivers' hit rate falls: one cold context for each that comes.

    A session makes a step each STEP_S (traces of agents: one in 78 s), with its whole context.
    """
    steps = (usual + moved / 2) * total_s / STEP_S
    return moved / (steps + moved) if moved else 0.0
