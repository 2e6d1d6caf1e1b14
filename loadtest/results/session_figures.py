"""Summarise whole sessions: an agent's user waits for all of its steps, not for one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadtest.results.quantiles import Spread, nearest_rank, spread_ms
from loadtest.results.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Hold figures over sessions; a sub-agent's is one of its own, and is counted apart too.

    `success_share`: sessions without a failed step. `hit_p50`: of each session's own hit rate,
    which is secondary, since short sessions weigh as much as long ones there.
    """

    count: int
    sub_agents: int
    success_share: float | None
    duration_ms: Spread
    """From the first step's sending to the last one's end, thinking time included."""
    steps_done: int
    steps_failed: int
    steps_cancelled: int
    steps_p50: float | None
    steps_max: float | None
    hit_p50: float | None
    hit_p10: float | None


def session_figures(records: Iterable[Record]) -> Sessions:
    """Group requests by session and summarise."""
    groups: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.region, record.session].append(record)
    sessions = list(groups.values())
    failed = [sum(record.error is not None for record in steps) for steps in sessions]
    cancelled = sum(record.cancelled for steps in sessions for record in steps)
    sizes = [float(len(steps)) for steps in sessions]
    hits = [hit for steps in sessions if (hit := _hit(steps)) is not None]
    return Sessions(
        count=len(sessions),
        sub_agents=sum(steps[0].parent is not None for steps in sessions),
        success_share=round(failed.count(0) / len(failed), 6) if failed else None,
        duration_ms=spread_ms(map(_duration_s, sessions)),
        steps_done=int(sum(sizes)) - sum(failed) - cancelled,
        steps_failed=sum(failed),
        steps_cancelled=cancelled,
        steps_p50=nearest_rank(sizes, 0.50),
        steps_max=max(sizes, default=None),
        hit_p50=nearest_rank(hits, 0.50),
        hit_p10=nearest_rank(hits, 0.10),
    )


def _duration_s(steps: Sequence[Record]) -> float:
    return max(r.sent_s + r.e2e_s for r in steps) - min(r.sent_s for r in steps)


def _hit(steps: Sequence[Record]) -> float | None:
    reported = [r for r in steps if r.error is None and r.cached_tokens is not None]
    prompt = sum(record.prompt_tokens or 0 for record in reported)
    return round(sum(r.cached_tokens or 0 for r in reported) / prompt, 6) if prompt else None
