"""Estimate how long a step takes and what it costs in cache, from a strategy's assumptions.

time of a step = drain + read weights + warm-up + settle, since its replicas go through it
together; a wave adds its soak. The formula without `settle` is that of the field: a rack of
nine, one at a time, with 15 + 5 + 7 minutes takes 4.05 h.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.model import Model
from fleet.release import Release
from fleet.rollout.strategy import Assumed
from fleet.rollout.waves import Wave

# Registration, the direct smoke and the requests that the gates need, in live traffic.
SETTLE_S = 120.0
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
    settle_s: float = SETTLE_S

    @property
    def total_s(self) -> float:
        """All of it, one after the other."""
        return self.drain_s + self.load_s + self.warm_up_s + self.settle_s


def start_times(model: Model, old: Release, new: Release, assumed: Assumed) -> StartTimes:
    """Say how long a replica of `old` takes to serve as one of `new`.

    Each node reads its share of one copy of the weights from its own disk.
    """
    return StartTimes(
        drain_s=old.drain_s * assumed.drain_share,
        load_s=model.weights_bytes / new.nodes / assumed.load_bytes_per_s,
        warm_up_s=assumed.warm_up_s,
    )


def wave_s(wave: Wave, times: StartTimes) -> float:
    """Say how long a wave takes, with its soak."""
    return len(wave.steps) * times.total_s + wave.spec.soak_s


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
