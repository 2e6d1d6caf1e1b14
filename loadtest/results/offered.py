"""Compare the arrivals that were due with those that came: a late generator offers less load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.results.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """Hold offered against achieved rate of arrivals; all None in a closed loop.

    `achieved_share` is the time in which the sessions were due to begin ÷ the time in which they
    did: 1.0 = on time, 0.5 = half of the rate that was asked.
    """

    offered_per_min: float | None
    achieved_per_min: float | None
    achieved_share: float | None


def offered_load(records: Sequence[Record]) -> Offered:
    """Compare the first calls of sessions; needs two of them."""
    firsts: dict[str, tuple[float, float]] = {}
    for record in records:
        if record.due_s is not None and record.turn == 1 and record.parent is None:
            firsts.setdefault(record.session, (record.due_s, record.sent_s))
    if len(firsts) < 2:
        return Offered(offered_per_min=None, achieved_per_min=None, achieved_share=None)
    due_s, sent_s = (_span_s([pair[side] for pair in firsts.values()]) for side in (0, 1))
    arrivals = (len(firsts) - 1) * 60
    return Offered(
        offered_per_min=round(arrivals / due_s, 3),
        achieved_per_min=round(arrivals / sent_s, 3),
        achieved_share=round(min(1.0, due_s / sent_s), 6),
    )


def _span_s(times_s: Sequence[float]) -> float:
    return max(max(times_s) - min(times_s), 1e-9)
