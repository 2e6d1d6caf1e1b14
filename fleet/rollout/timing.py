"""Estimate how long a step takes and what it costs in cache, from a strategy's assumptions.

A step = an update for each of its regions, one after the other; all else its regions go through
side by side, so the slowest counts: drain, read weights, warm up, register, questions of each
replica, the traffic that the gates need. A wave adds its soak. With drain, weights and warm-up
alone the formula is that of the field: a rack of nine, one at a time, with 15 + 5 + 7 minutes
takes 4.05 h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.model import Model
from fleet.release import Release
from fleet.rollout.strategy import Assumed, Gates

# Moving x % of the sessions lowers the hit rate by about 0.9 x points for one turn each.
HIT_POINTS_PER_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What the sessions of the replicas that leave cost those that stay."""

    sessions: int
    prefill_tokens: int  # their whole contexts, once
    prefill_s: float  # of all replicas of the region that stay
    hit_dip: float  # share of prompt tokens, while the sessions come back


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimes:
    """Parts of a replica's way from its last stream to its first."""

    drain_s: float
    load_s: float
    warm_up_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Parts of a step, of all its regions together."""

    drain_s: float
    update_s: float
    load_s: float
    warm_up_s: float
    register_s: float
    questions_s: float
    gates_s: float

    @property
    def total_s(self) -> float:
        """All of it, one after the other."""
        return (
            self.drain_s
            + self.update_s
            + self.load_s
            + self.warm_up_s
            + self.register_s
            + self.questions_s
            + self.gates_s
        )


def start_times(model: Model, old: Release, new: Release, assumed: Assumed) -> StartTimes:
    """Say how long a replica of `old` takes to serve as one of `new`.

    Each node reads its share of one copy of the weights from its own disk.
    """
    return StartTimes(
        drain_s=old.drain_s * assumed.drain_share,
        load_s=model.weights_bytes / new.nodes / assumed.load_bytes_per_s,
        warm_up_s=assumed.warm_up_s,
    )


def step_times(
    away: Mapping[str, int],
    totals: Mapping[str, int],
    start: StartTimes,
    gates: Gates,
    assumed: Assumed,
) -> StepTimes:
    """Say how long a step takes: `away` has its replicas by region, `totals` all of the regions."""
    return StepTimes(
        drain_s=start.drain_s,
        update_s=assumed.update_s * len(away),
        load_s=start.load_s,
        warm_up_s=start.warm_up_s,
        register_s=assumed.register_s,
        questions_s=assumed.questions_s * max(away.values()),
        gates_s=max(window_s(gone, totals[name], gates, assumed) for name, gone in away.items()),
    )


def window_s(away: int, replicas: int, gates: Gates, assumed: Assumed) -> float:
    """Say how long a region's traffic takes to be enough for its gates.

    Frontends count the requests of all replicas. Those of the step have lost their sessions: they
    get `returning_share` of the requests that one has otherwise, until new sessions have come.
    """
    rate = assumed.requests_per_s
    all_of_them = gates.min_requests / (rate * max(replicas - away, 1))
    of_the_new = gates.min_replica_requests / (rate * assumed.returning_share * away)
    return max(all_of_them, of_the_new)


def step_cost(leaving: int, replicas: int, assumed: Assumed) -> StepCost:
    """Say what it costs a region of `replicas` that `leaving` of them lose their cache."""
    sessions = leaving * assumed.sessions_per_replica
    tokens = sessions * assumed.context_tokens
    staying = replicas - leaving
    return StepCost(
        sessions=sessions,
        prefill_tokens=tokens,
        prefill_s=tokens / (staying * assumed.prefill_tokens_per_s) if staying else float("inf"),
        hit_dip=HIT_POINTS_PER_SHARE * leaving / replicas,
    )
