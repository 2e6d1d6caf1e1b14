"""Say how many cores a load needs: a generator that is too small measures itself.

Pure arithmetic over what the traffic asks for. One event of a stream costs a worker about 60 us,
and past 5,000 events/s per core the time stamps wait for each other; so
cores = output tokens/s ÷ tokens per chunk ÷ 5,000.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from loadtest.traffic.sessions import Step, Traffic

# Measured: own reader on one core, 100 streams; at 10,000 the median TTFT is the client's.
EVENTS_PER_CORE_S = 5_000
# What one answer gets at most: about 10 ms a token, the best published of K3 on GB300 without
# speculation. A faster server needs --output-tokens-per-s.
STREAM_TOKENS_PER_S = 100.0
_SAMPLED_SESSIONS = 24
_SAMPLED_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Hold what a load asks of its generator."""

    output_tokens_per_s: float
    tokens_per_chunk: float = 1.0

    @property
    def events_per_s(self) -> float:
        """How many chunks arrive in a second."""
        return self.output_tokens_per_s / self.tokens_per_chunk

    @property
    def cores(self) -> int:
        """How many cores that takes, one worker process on each."""
        return max(1, math.ceil(self.events_per_s / EVENTS_PER_CORE_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPace:
    """Hold the mean of what one agent does."""

    output_tokens_per_s: float
    session_s: float


def pace_of(traffic: Traffic) -> AgentPace:
    """Sample sessions of a traffic: tokens over the time of pauses and of answers."""
    tokens, seconds, sessions = 0.0, 0.0, 0
    for number in range(min(_SAMPLED_SESSIONS, traffic.most_sessions or _SAMPLED_SESSIONS)):
        sessions += 1
        for step in islice(traffic.session(number), _SAMPLED_STEPS):
            tokens += step.output_tokens
            seconds += _step_s(step)
    return AgentPace(
        output_tokens_per_s=tokens / seconds if seconds else 0.0, session_s=seconds / sessions
    )


def closed_loop(users: int, pace: AgentPace) -> float:
    """Compute the output tokens/s of agents that are at work all the time."""
    return users * pace.output_tokens_per_s


def open_loop(sessions_per_minute: float, duration_s: float, pace: AgentPace) -> float:
    """Compute the output tokens/s once as many sessions run as ever will."""
    at_once = sessions_per_minute / 60 * min(duration_s, pace.session_s)
    return at_once * pace.output_tokens_per_s


def undersized(demand: Demand, processes: int) -> str | None:
    """Say what is too small about a generator, None when nothing is."""
    if demand.cores <= processes:
        return None
    return (
        f"{demand.events_per_s:,.0f} events/s are expected, {EVENTS_PER_CORE_S:,} a process are "
        f"measured cleanly: {demand.cores} processes are needed, {processes} "
        f"{'is' if processes == 1 else 'are'} given"
    )


def workers_note(processes: int, cores: int | None) -> Iterable[str]:
    """Say that processes share cores, where they do."""
    if cores is not None and processes > cores:
        yield f"{processes} processes share {cores} cores of this machine, one core each is needed."


def _step_s(step: Step) -> float:
    return step.gap_s + step.output_tokens / STREAM_TOKENS_PER_S
